"""What there is to say of a data set, its faults, its conversion to another format, and its distributions."""
