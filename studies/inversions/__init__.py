"""A table of inversions as one plan: several models, targets and numbers, each cell an inversion."""
