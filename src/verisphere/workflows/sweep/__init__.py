"""Sweeps: grids of recipe fields and controlled experiments, trained, measured and compared."""
