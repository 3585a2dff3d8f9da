"""From a run to a model in use: aligned photographs, a calibrated threshold, a model folder, verify and identify."""
