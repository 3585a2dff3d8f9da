"""The command line: one function per verb, which returns the text for standard output. Messages go to standard error.

A verb is a function and its arguments, side by side in the file of its topic; `start.py` lists them all.
"""

from verisphere.cli.start import main

__all__ = ["main"]
