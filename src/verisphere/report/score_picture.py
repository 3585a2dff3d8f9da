"""The scores of strangers and of the same person in one picture, with what falls on the wrong side of a threshold.

It stands in the page as elements whose colours are those of the page; a script may move the threshold by the two
attributes `data-low` and `data-high`, the scores at the borders.
"""

import numpy as np
from jaxtyping import Float64
from matplotlib.ticker import MaxNLocator

from verisphere.decide.histogram import Histogram
from verisphere.report.html import Markup, tag

WIDTH, HEIGHT, FLOOR, TOP = 480, 250, 214, 44


def score_picture(histogram: Histogram, threshold: float, label: str) -> Markup:
    """Both kinds of scores over one axis, the wrong side of each in a full colour, and the threshold between them.

    Heights are square roots of shares, so that the tails, which the errors come from, can be seen. A threshold that
    lies beyond the border is drawn at it; `label` is the picture in words.
    """
    low, high = float(histogram.edges[0]), float(histogram.edges[-1])
    kinds = {"strangers": histogram.impostor / histogram.impostor_total, "same": histogram.genuine}
    kinds["same"] = histogram.genuine / histogram.genuine_total
    tallest = max(float(np.sqrt(shares).max()) for shares in kinds.values()) or 1.0
    across = (histogram.edges - low) / (high - low) * WIDTH
    at = float(np.clip((threshold - low) / (high - low), 0, 1)) * WIDTH
    paths = {name: _outline(across, np.sqrt(shares) / tallest) for name, shares in kinds.items()}
    peaks = {name: float(np.clip(across[int(shares.argmax())], 60, WIDTH - 60)) for name, shares in kinds.items()}
    if peaks["same"] - peaks["strangers"] < 130:  # the names would touch
        peaks = {"strangers": 45.0, "same": WIDTH - 55.0}
    sides = {"strangers": (at, WIDTH - at), "same": (0.0, at)}
    clips = (
        tag("clipPath", tag("rect", x=f"{x:.1f}", y="0", width=f"{width:.1f}", height=str(FLOOR)), id=f"wrong-{name}")
        for name, (x, width) in sides.items()
    )
    fills = [tag("path", d=path, class_=f"fill {name}") for name, path in paths.items()]
    fills += [
        tag("path", d=path, class_=f"fill wrong {name}", clip_path=f"url(#wrong-{name})")
        for name, path in paths.items()
    ]
    names = (
        tag("text", text, x=f"{peaks[name]:.1f}", y=str(TOP - 12), class_=name, text_anchor="middle")
        for name, text in (("strangers", "strangers"), ("same", "same person"))
    )
    marks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
    axis = (
        tag("text", f"{mark:g}", x=f"{(mark - low) / (high - low) * WIDTH:.1f}", y=str(FLOOR + 16), class_="mark",
            text_anchor="middle")
        for mark in np.round(marks, 10)
        if low < mark < high
    )  # fmt: skip
    line = tag("path", d=f"M0 {TOP - 6}V{FLOOR + 2}", class_="threshold", transform=f"translate({at:.1f} 0)")
    below = tag("text", "score: the more alike, the further right", x=str(WIDTH), y=str(HEIGHT - 2), class_="mark",
                text_anchor="end")  # fmt: skip
    floor = tag("path", d=f"M0 {FLOOR}H{WIDTH}", class_="axis")
    parts = (tag("defs", *clips), *fills, floor, *names, *axis, below, line)
    borders = {"data_low": repr(low), "data_high": repr(high)}
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label, class_="scores", **borders)


def _outline(across: Float64[np.ndarray, " edges"], heights: Float64[np.ndarray, " bins"]) -> str:
    """The outline of a histogram, closed at the floor."""
    ups = FLOOR - heights * (FLOOR - TOP)
    steps = "".join(f"V{up:.1f}H{right:.1f}" for up, right in zip(ups, across[1:], strict=True))
    return f"M{across[0]:.1f} {FLOOR}{steps}V{FLOOR}Z"
