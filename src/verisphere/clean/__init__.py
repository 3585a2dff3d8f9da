"""Label noise found by sub-centers and other rules, duplicates, overlap between sets; what was dropped, and why."""
