"""File formats, one per module, the reader beside the writer; every file is written completely or not at all."""

from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.files.scores import read_scores

__all__ = ["read_embeddings", "read_scores", "write_embeddings"]
