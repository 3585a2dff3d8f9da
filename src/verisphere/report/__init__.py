"""Results for people and programs: tables, plots, JSON, progress."""
