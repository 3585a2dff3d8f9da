"""One person twice: under two identities of a set, or in a training and a test set; found by name and embedding."""
