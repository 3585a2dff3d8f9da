"""What every room stands on: devices, ranks, seeds, names of people, and words."""
