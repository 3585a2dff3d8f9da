"""Rendering alone: tables, plots, HTML and progress."""
