"""What a person sets out to do, from end to end: train, embed, evaluate, show."""
