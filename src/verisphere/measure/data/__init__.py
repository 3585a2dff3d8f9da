"""A data set in figures, its faults, its conversion to another format, and its distributions."""
