"""The weights of red, green and blue in an image's luma."""

LUMA = (0.299, 0.587, 0.114)
"""ITU-R BT.601, as JPEG and Pillow weigh them."""
