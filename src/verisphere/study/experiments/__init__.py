"""Experiments: grids of recipe fields and named arms, each trained, measured and compared."""
