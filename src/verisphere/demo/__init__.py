"""The whole road in a few minutes, on drawn faces."""
