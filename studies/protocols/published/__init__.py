"""Small sets of drawn faces in the layouts in which the field's sets are published; `sets` writes them all."""
