"""The code that writes the pages of docs/reference from docstrings; it is no part of the installed package."""
