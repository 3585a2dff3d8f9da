"""The code that draws the pictures of some pages of docs/; it is no part of the installed package."""
