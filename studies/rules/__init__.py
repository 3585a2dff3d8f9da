"""Label noise put into embeddings, and how much of it each rule of cleaning finds. No training."""
