"""Plans: what a training takes before it begins."""
