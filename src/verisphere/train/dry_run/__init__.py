"""The dry run of a training: its memory, communication and work, computed before it begins."""
