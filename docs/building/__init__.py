"""What mkdocs runs while it builds the site."""
