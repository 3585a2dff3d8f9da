"""A module with class centers, some of which an engine may have left without their last steps."""

from typing import Any

from torch import nn


class LateModule(nn.Module):
    """Base of a head: every reader of the centers sees all their steps.

    Under the engine `Sparse` some centers lack their last steps, see `verisphere.head.late`. The module makes these
    before `centers` is read, and before it is copied, moved, saved or loaded.
    """

    def __getattr__(self, name: str) -> Any:
        """The centers with all their steps; anything else is looked up as in any module."""
        if name == "centers":
            self.bring_up()
        return super().__getattr__(name)

    @property
    def stored(self) -> nn.Parameter:
        """The parameter `centers` as it is stored, to be read by engines and optimizers, and not to be changed."""
        stored = self._parameters.get("centers")
        return self.centers if stored is None else stored  # centers that are parametrised are computed

    def bring_up(self) -> None:
        """Make the steps that some centers lack, and expect somebody to change the centers.

        It is needed before the centers are read or changed by `parameters()` or a reference from before.
        """
        engine = self.__dict__.get("engine")
        if engine is not None:
            engine.forget()

    def _apply(self, *arguments: Any, **named: Any) -> Any:
        """Move or convert the centers with all their steps: `to`, `double` and the like."""
        self.bring_up()
        return super()._apply(*arguments, **named)

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy, whose centers have all their steps."""
        self.bring_up()
        return self.__dict__

    def _load_from_state_dict(self, *arguments: Any) -> None:
        """Load other centers, after the steps of these: momentum that is loaded apart must not get them."""
        self.bring_up()
        super()._load_from_state_dict(*arguments)

    def _save_to_state_dict(self, *arguments: Any) -> None:
        """Save the centers with all their steps."""
        self.bring_up()
        super()._save_to_state_dict(*arguments)
