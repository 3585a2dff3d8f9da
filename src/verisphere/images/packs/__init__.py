"""Encoded images with names, identities and domains on disk: one format a file, reader beside writer."""
