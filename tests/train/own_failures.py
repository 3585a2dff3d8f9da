"""Classes of one's own that fail, each in another way."""

from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone


class Raises(Backbone):
    """Its constructor fails."""

    def __init__(self) -> None:
        super().__init__(8)
        raise RuntimeError("no weights\nhere")

    def embed(self, images: Tensor) -> Tensor:
        """Never reached."""
        return images


class Leaves(Backbone):
    """Its constructor ends the process."""

    def __init__(self) -> None:
        raise SystemExit(0)


class Forgets(Backbone):
    """It forgets an argument of the class above it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[call-arg]


class Foreign(nn.Module):
    """It is no backbone."""


def nothing() -> Backbone:
    """It promises a backbone."""
    return None  # type: ignore[return-value]
