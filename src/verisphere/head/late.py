"""Class centers that are updated late: rows without a gradient stand still until somebody needs them.

A step of SGD changes a center w without gradient, and its momentum v, by numbers that are the same for all such
centers: with the momentum m, the decay d and the rate r of the step

    v' = d w + m v,    w' = w - r v'    (Nesterov: w' = w - r (d w + m v'))

so (w', v') = M (w, v) with a 2 x 2 matrix M of the step. A center that was last written before step t is therefore
P (w, v) now, P = M_T ... M_t. For each step t this module keeps P itself, and multiplies all of them by the matrix of a
new step from the left: a product of as many factors as there were steps, in float64, without a quotient, since the
products of all steps underflow. The direction of a late center turns by at most |P_wv| u / |P_ww + P_wv l|, where v is
l w plus a part of length u |w| across w; this bounds how far a screen of the centers is out of date.
"""

from typing import Any

import torch
from jaxtyping import Float32, Int64
from torch import Tensor, nn

from verisphere.head.interface import SGDStep
from verisphere.head.screened import CenterScreen, parts

#: Steps after which all centers are brought up: the matrices of so many steps are multiplied in each step.
MOST_STEPS = 2048


def step_matrix(step: SGDStep) -> list[list[float]]:
    """The matrix by which a step changes (center, momentum) of a center without gradient.

    >>> step_matrix(SGDStep(rate=0.5, momentum=0.5, weight_decay=0.25))
    [[0.875, -0.25], [0.25, 0.5]]
    >>> step_matrix(SGDStep(rate=0.5, momentum=0.5, weight_decay=0.25, nesterov=True))
    [[0.8125, -0.125], [0.25, 0.5]]
    """
    decay, momentum = step.weight_decay, step.momentum
    of_center, of_momentum = (decay, momentum)
    if step.nesterov:
        of_center, of_momentum = decay + momentum * decay, momentum * momentum
    return [[1.0 - step.rate * of_center, -step.rate * of_momentum], [decay, momentum]]


_CHANGED = (
    "centers or their momentum were changed while some of them lacked their last steps, so that these are lost: load a "
    "checkpoint, first of the head and then of the optimizer; and change `head.centers`, which brings up all of them, "
    "not a reference that was kept from before"
)


class LateCenters:
    """Centers and momentum of which some rows lack the last steps, and what it takes to bring them up.

    It writes centers and momentum without a new version of the tensors, except for `advance`: a row that is brought up
    has the values that it stood for.

    Attributes:
        screen: the screen of the centers, in which classes that are written are renewed; None once all have changed.
    """

    def __init__(self) -> None:
        self._centers = torch.empty(0)  # those that `of` takes
        self._buffer: Tensor | None = None
        self._state: tuple[object, ...] = ()
        self._behind, self._version = False, 0
        self.screen: CenterScreen | None = None

    @property
    def _lost(self) -> bool:
        """Whether somebody changed centers or momentum while rows were late."""
        foreign = self._buffer is not None and self._buffer._version != self._version
        return self._behind and (foreign or self._state != _state(self._centers))

    def of(self, centers: Tensor) -> None:
        """Take the centers of a head, anew unless they are those that this object wrote last.

        ValueError if somebody changed the centers while rows were late.
        """
        if self._state == _state(centers):
            return
        if self._behind:
            raise ValueError(_CHANGED)
        self._centers, self._buffer, self._state, self.screen = centers, None, _state(centers), None
        #: the step before which each class was written last, and for each step the matrix from there to now
        self._since = torch.zeros(len(centers), dtype=torch.int64, device=centers.device)
        self._matrices = torch.eye(2, dtype=torch.float64, device=centers.device)[None]
        #: of each center's momentum over its length: the part along the center, and the length of that across
        self._along = torch.zeros(centers.shape[:2], dtype=torch.float32, device=centers.device)
        self._across = torch.zeros_like(self._along)

    def forget(self, loading: bool = False) -> None:
        """Bring up all centers, and take them for changed: somebody else may write to them, or is `loading` them."""
        if not (loading and self._lost):
            self.bring_up()
        self._state, self._buffer, self.screen, self._behind = (), None, None, False

    def attach(self, buffer: Tensor | None) -> None:
        """Take the momentum buffer of the coming step."""
        if buffer is self._buffer and (buffer is None or buffer._version == self._version):
            return
        self.bring_up()
        self._buffer = buffer
        self._version = 0 if buffer is None else buffer._version
        for classes in parts(self._centers):
            self._measure(classes, *self.current(classes))

    def write(self, classes: Int64[Tensor, " some"], rows: Tensor, momentum: Tensor | None, behind: int = 1) -> None:
        """Write classes as they are now, or, `behind` = 0, after a step that is being made, before `advance`."""
        self._centers.data.index_copy_(0, classes, rows)
        if self._buffer is not None and momentum is not None:
            self._buffer.data.index_copy_(0, classes, momentum)
        self._since[classes] = len(self._matrices) - behind
        self._measure(classes, rows, momentum)
        if self.screen is not None:
            self.screen.renew(classes)

    def advance(self, step: SGDStep) -> None:
        """All classes that this step has not written are late by one step more."""
        torch.autograd.graph.increment_version(self._centers)  # as any engine makes
        self._state = _state(self._centers)
        matrix = torch.tensor(step_matrix(step), dtype=torch.float64, device=self._matrices.device)
        self._matrices = torch.cat([matrix @ self._matrices, torch.eye(2).to(matrix)[None]])
        self._behind = True
        if len(self._matrices) > MOST_STEPS:
            self.bring_up()

    def bring_up(self, classes: Int64[Tensor, " some"] | None = None) -> None:
        """Write these classes, or all, as they are now."""
        if not self._behind:
            return
        if self._lost:
            raise ValueError(_CHANGED)
        if classes is None:
            self.screen = None
        for some in parts(self._centers, classes):
            self.write(some, *self.current(some))
        if classes is None:
            self._since.zero_()
            self._matrices, self._behind = self._matrices[-1:], False

    def turned(self) -> Float32[Tensor, "classes subcenters"]:
        """An upper bound of how far each direction is from that stored; enormous if turned round, or nearly 0."""
        rows = self._matrices[:, 0].float().T.contiguous()
        of_center, of_momentum = (entry.index_select(0, self._since)[:, None] for entry in rows)
        length = torch.threshold(of_center + of_momentum * self._along, 2.0**-10, 0.0)  # turned round, or nearly 0
        return (1.0001 * of_momentum.abs() * self._across / length).nan_to_num(nan=torch.inf)

    def current(self, classes: Int64[Tensor, " some"], both: bool = True) -> tuple[Tensor, Tensor | None]:
        """Centers as they are now, and their momentum unless the centers alone are needed."""
        rows = self._centers.detach().index_select(0, classes)
        momentum = None if self._buffer is None else self._buffer.detach().index_select(0, classes)
        if not self._behind:
            return rows, momentum
        matrices = self._matrices.index_select(0, self._since.index_select(0, classes))
        # a large factor adds the change: rounding one near 1 would go the same way in each step
        large = matrices[:, 0, 0] > 0.5
        matrices[:, 0, 0] -= large.to(matrices)
        matrices = matrices.to(rows.dtype).movedim(0, 2)[..., None, None]  # each entry beside the rows
        start = rows if bool(large.all()) else rows * large[:, None, None]
        now = start.addcmul(rows, matrices[0, 0]) if both else start.addcmul_(rows, matrices[0, 0])
        if momentum is None:
            return now, None
        now.addcmul_(momentum, matrices[0, 1])
        return now, momentum.mul_(matrices[1, 1]).addcmul_(rows, matrices[1, 0]) if both else None

    def _measure(self, classes: Tensor, rows: Tensor, momentum: Tensor | None) -> None:
        """Record the momentum of classes that have just been written, beside their centers."""
        if momentum is None:
            return
        squared, along, of_momentum = (
            torch.einsum("nkd,nkd->nk", *pair) for pair in ((rows, rows), (rows, momentum), (momentum, momentum))
        )
        along = torch.where(squared > 0, along / squared, 0.0)
        # what the sums have rounded may be across; the difference is never less than that
        rounding = 8 * rows.shape[2] * torch.finfo(rows.dtype).eps
        across = (of_momentum - along * along * squared).clamp(min=0) + rounding * of_momentum
        across = (across / squared).sqrt()
        self._along[classes] = along.float()
        self._across[classes] = torch.where(across == across, across, torch.inf).float()


class LateModule(nn.Module):
    """Base of a head: every reader of the centers sees all their steps.

    Under the engine `Sparse` some centers lack their last steps. The module makes these before `centers` is read, and
    before it is moved or saved; a head also before it is copied or loaded.
    """

    def __getattr__(self, name: str) -> Any:
        """The centers with all their steps; anything else is looked up as in any module."""
        if name == "centers":
            self.bring_up()
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set anything; an engine that another takes the place of makes the steps that some centers lack.

        The head takes a copy of an engine, so that one object may be given to several heads. ValueError if the step of
        the former engine would follow, of which the other one knows nothing, or if that one holds other classes.
        """
        if name == "engine":
            deferred = getattr(self, "deferred_gradient", None)
            if deferred is not None and hasattr(deferred.gradient, "late"):
                raise ValueError("another engine takes the place of Sparse before the step of its gradient: step first")
            self.bring_up()
            value = value.for_classes(self.classes)
            held = value.held(self.classes)
            if self.__dict__.get("held", held) != held:
                raise ValueError(f"the engine holds the classes {held}, of which the head has {self.held}")
            self.draws = value.draws if value.draws is None else value.draws.train(self.training)
        super().__setattr__(name, value)

    @property
    def stored(self) -> Tensor:
        """The centers as they are stored, as a rule a parameter, to be read by engines and optimizers, not changed."""
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

    def _save_to_state_dict(self, *arguments: Any) -> None:
        """Save the centers with all their steps."""
        self.bring_up()
        super()._save_to_state_dict(*arguments)


def _state(centers: Tensor) -> tuple[object, ...]:
    """What differs once somebody else has changed the centers, or put others in their place."""
    version = 0 if centers.is_inference() else centers._version
    return version, centers.data_ptr(), centers.dtype, centers.device, centers.shape
