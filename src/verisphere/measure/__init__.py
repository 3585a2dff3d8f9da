"""What a model is worth: evaluations, comparisons of models, identification, and the report page."""
