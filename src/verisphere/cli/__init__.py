"""The command line: one function a verb, which returns what standard output shows. Talk goes to standard error.

A verb is a function and its arguments, side by side in the file of its topic; `start.py` lists them all.
"""

from verisphere.cli.start import main

__all__ = ["main"]
