"""All published sets of a folder in one run: `sets` is the table of them, `run` embeds each image once and measures."""
