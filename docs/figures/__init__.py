"""The code that draws the pictures of docs/losses.md; it is no part of the installed package."""
