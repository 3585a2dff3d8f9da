"""The TAR of the arms of an experiment with each person weighted alike, whatever the number of their photographs."""
