"""Faces of one library grouped into people: with a promise of purity, by steps, and for a person to look at."""
