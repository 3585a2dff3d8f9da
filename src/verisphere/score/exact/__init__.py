"""Exact answers about all pairs: low precision places each score between bounds, high precision decides the rest."""
