"""Plots of the distributions of a data set: images per identity, yaw, domains."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from verisphere.report.plots import INK, LINES, SERIES, in_picture, new_figure, tidy

_MOST_DOMAINS = 12  # bars of domains; one further bar stands for all others
_LONGEST_DOMAIN = 20  # letters of a domain's name beside its bar
_AROUND, _BAR = 0.8, 0.22  # inches: of the marks and the name of an axis, and of a bar across


def data_plot(
    title: str,
    images_per_identity: Sequence[tuple[str, int]],
    yaw: Sequence[tuple[int, int, int]] | None,
    domains: Mapping[str, int] | None,
) -> Figure:
    """The distributions of a data set, a panel each, from top to bottom.

    `images_per_identity` has intervals in words, and their people; `yaw` the first and last degree of intervals, and
    their images; `domains` are in order of falling number.
    """
    heights = [_AROUND + _BAR * max(len(images_per_identity), 3)]
    if yaw is not None:
        heights.append(2.5)
    if domains:
        heights.append(_AROUND + _BAR * min(len(domains), _MOST_DOMAINS + 1))
    figure = new_figure(sum(heights) + 0.4)
    panels = list(figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])
    panels[0].set_title(in_picture(title), loc="left", color=INK, fontsize=11)
    _draw_images(panels[0], images_per_identity)
    if yaw is not None:
        _draw_yaw(panels[1], yaw)
    if domains:
        _draw_domains(panels[-1], domains)
    for axes in panels:
        tidy(axes)
        axes.set_axisbelow(True)
    return figure


def _draw_images(axes: Axes, rows: Sequence[tuple[str, int]]) -> None:
    _draw_across(axes, rows)
    axes.set_ylabel("images")
    axes.set_xscale("symlog", linthresh=1)  # this scale has a place for a count of 0
    axes.set_xlim(0, 4 * max([1, *(count for _, count in rows)]) ** 1.2)  # room for the count behind its bar
    axes.xaxis.set_major_formatter(lambda value, _: _few_letters(value))
    axes.set_xlabel("identities with as many images")


def _draw_yaw(axes: Axes, rows: Sequence[tuple[int, int, int]]) -> None:
    total = max(sum(count for *_, count in rows), 1)
    axes.bar(
        [first for first, *_ in rows],
        [100 * count / total for *_, count in rows],
        width=[last - first for first, last, _ in rows],
        align="edge",
        color=SERIES[0],
        edgecolor="white",
    )
    axes.set_xticks([rows[0][0], *(last for _, last, _ in rows)][::2])
    axes.set_xlabel("estimated yaw, degrees")
    axes.set_ylabel("% of images")
    axes.grid(axis="y", color=LINES, linewidth=0.7)


def _draw_domains(axes: Axes, domains: Mapping[str, int]) -> None:
    names, counts = list(domains), list(domains.values())
    rows = [(_short(name), count) for name, count in zip(names[:_MOST_DOMAINS], counts, strict=False)]
    if len(names) > _MOST_DOMAINS:
        rows.append((f"{len(names) - _MOST_DOMAINS:,} others", sum(counts[_MOST_DOMAINS:])))
    _draw_across(axes, rows)
    axes.xaxis.set_major_formatter(lambda value, _: _few_letters(value))
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlim(0, 1.25 * max(counts))
    axes.set_xlabel("images of a domain")


def _few_letters(count: float) -> str:
    """A short text for a number at a tick, so that neighbouring texts do not touch.

    >>> _few_letters(500.0), _few_letters(2e4), _few_letters(2.5e6)
    ('500', '20k', '2.5M')
    """
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:g}{letter}"
    return f"{count:g}"


def _short(name: str) -> str:
    return in_picture(name if len(name) <= _LONGEST_DOMAIN else f"{name[: _LONGEST_DOMAIN - 1]}\u2026")


def _draw_across(axes: Axes, rows: Sequence[tuple[str, int]]) -> None:
    """Bars from left to right, the first at the top: beside them is room for names of any length.

    The count stands at the end of each bar, since the ticks do not show the length of a bar between them.
    """
    places = range(len(rows))
    bars = axes.barh(places, [count for _, count in rows], height=0.75, color=SERIES[0])
    axes.bar_label(bars, [f"{count:,}" for _, count in rows], padding=3, fontsize=8, color=INK)
    axes.set_yticks(places, [name for name, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="x", color=LINES, linewidth=0.7)
