"""The dry run of a training: what it will hold, send and compute, before it begins."""
