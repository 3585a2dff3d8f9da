"""model_card.md, a file for each subject of its sections."""
