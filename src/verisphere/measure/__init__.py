"""Measurements of models: evaluations, comparisons of models, identification, and the report page."""
