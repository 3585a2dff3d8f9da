"""Class centers, and the engines that run a loss over them."""

from verisphere.head.head import Head, HeadOutput

__all__ = ["Head", "HeadOutput"]
