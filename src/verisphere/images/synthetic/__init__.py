"""The renderer: drawn faces with known people and circumstances, for demonstrations, tests and experiments."""
