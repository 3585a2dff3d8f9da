"""What a search for the overlap of two sets misses."""
