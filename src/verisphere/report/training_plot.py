"""The plot of a training: all figures in the log of a run, over the epochs."""

import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TypeAlias

from matplotlib.figure import Figure

from verisphere.report.plots import INK, LINES, STYLES, in_picture, new_figure, tidy

_TITLES = {
    "loss": "loss",
    "rate": "learning rate",
    "margin_share": "share of the margin",
    "gradient_norm": "gradient norm",
    "validation_tar": "TAR in validation",
    "anchor_tar": "TAR at the anchor, in training",
    "anchor_threshold": "threshold at the anchor",
    "anchor_set_fill": "fill of the online-updating set",
    "anchor_negatives": "negative pairs a step",
    "anchor_positives": "positive pairs a step",
    "anchor_too_few": "share of steps with too few negatives",
    "anchor_far_loss": "FAR loss",
    "anchor_tar_loss": "TAR loss",
    "tcp_queue_fill": "fill of the queue",
    "tcp_capped": "share of rows whose weight was cut off",
    "tcp_domain_loss": "loss of the implicit domains",
    "tcp_gamma": "gamma on the queue",
    "tcp_threshold": "thresholds on the queue",
    "tcp_weight": "weights of the domains",
    "tcp_share": "shares of the domains",
}
#: Figures whose names differ only in such an ending (a FAR or a domain) share a panel, with a line for each ending.
_AT_FAR = re.compile(r"(.+?)_at_far_(.+)")
_OF_DOMAIN = re.compile(r"(tcp_\w+?)_of_(.+)")
#: Panels in which small differences matter, so that they do not begin at 0.
_NOT_FROM_ZERO = {_TITLES[name] for name in ("anchor_tar", "anchor_threshold", "tcp_threshold", "tcp_weight")}
_UNDRAWN = ("step", "epoch", "images_per_second")

Lines: TypeAlias = dict[str, tuple[list[float], list[float]]]


def training_plot(entries: Sequence[Mapping[str, float | int | None]], title: str) -> Figure:
    """All figures in the log of a run, over the epochs, with a panel for each kind of figure, such as validation TARs.

    Entries are lines of `metrics.jsonl`; a figure that was not finite is None there, and is skipped.
    """
    panels = _panels(entries)
    figure = new_figure(1.25 * max(len(panels), 1) + 0.8)
    grid = figure.subplots(max(len(panels), 1), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (label, lines) in zip(grid, panels.items(), strict=False):
        for (colour, dashes), (name, (epochs, values)) in zip(cycle(STYLES), lines.items(), strict=False):
            mark = "." if len(epochs) < 30 else None
            axes.plot(
                epochs,
                values,
                color=colour,
                linestyle=dashes,
                linewidth=1.6,
                marker=mark,
                label=in_picture(name),
                clip_on=False,  # a marker on the border is not clipped
            )
        axes.set_title(in_picture(label), loc="left", color=INK, fontsize=10)
        axes.margins(y=0.12)
        if label not in _NOT_FROM_ZERO:
            axes.set_ylim(bottom=min([0.0, *(min(values) for _, values in lines.values())]))
        if len(lines) > 1:
            axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        tidy(axes)
        axes.grid(color=LINES, linewidth=0.7)
    grid[-1].set_xlim(left=0)
    grid[-1].set_xlabel("epoch")
    figure.suptitle(in_picture(title), x=0.02, ha="left", color=INK, fontsize=11)
    return figure


def _panels(entries: Sequence[Mapping[str, float | int | None]]) -> dict[str, Lines]:
    """For each panel, the epochs and values of its lines; the log states only the step of a validation."""
    epochs_a_step = 1.0
    for entry in entries:
        step, epoch = entry.get("step"), entry.get("epoch")
        if step and epoch:
            epochs_a_step = epoch / step
    panels: dict[str, Lines] = {}
    for entry in entries:
        epoch = entry.get("epoch")
        epoch = epochs_a_step * (entry.get("step") or 0) if epoch is None else epoch
        for name, value in entry.items():
            if name in _UNDRAWN or not isinstance(value, (int, float)):
                continue
            panel, line = _place(name)
            epochs, values = panels.setdefault(panel, {}).setdefault(line, ([], []))
            epochs.append(float(epoch))
            values.append(float(value))
    return panels


def _place(name: str) -> tuple[str, str]:
    """Title of the panel of a figure, and the name of its line there."""
    at_far, of_domain = _AT_FAR.fullmatch(name), _OF_DOMAIN.fullmatch(name)
    parts = at_far or of_domain
    panel = name if parts is None else parts[1]
    line = name if parts is None else f"FAR {parts[2]}" if at_far else parts[2]
    return _TITLES.get(panel, panel.replace("_", " ")), line
