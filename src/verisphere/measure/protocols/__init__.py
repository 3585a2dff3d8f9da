"""Evaluation protocols. They take embeddings, never a model: embed once, evaluate again in seconds."""
