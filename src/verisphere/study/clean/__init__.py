"""Label noise found by sub-centers and other rules, duplicates, overlap between sets; and the pages about them."""
