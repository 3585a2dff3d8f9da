"""Open-set and closed-set identification as plain tables."""

from collections.abc import Mapping, Sequence

from verisphere.decide.identification import IdentificationPoint, MeanPoint, MeanRank, RankRate
from verisphere.report.tables import number, small, table


def open_set_table(
    points: Mapping[str, Sequence[IdentificationPoint]], means: Sequence[MeanPoint] | None = None
) -> str:
    """TPIR at each target FPIR in each gallery, and the mean; no TPIR if too few non-mated probes show the target."""
    rows = [
        [
            name,
            point.fpir_target + ("*" if point.below_resolution else ""),
            number(point.threshold, 6),
            "-" if point.below_resolution else number(point.tpir),
            "-" if point.below_resolution else f"{number(point.tpir_lower_95)} .. {number(point.tpir_upper_95)}",
            f"{point.mated_identified:,} / {point.mated_total:,}",
            small(point.fpir),
            f"{small(point.fpir_lower_95)} .. {small(point.fpir_upper_95)}",
            f"{point.nonmated_passed:,} / {point.nonmated_total:,}",
        ]
        for name, points_of_gallery in points.items()
        for point in points_of_gallery
    ]
    for mean in means or ():
        star = "*" if mean.below_resolution else ""
        tpir = "-" if mean.below_resolution else number(mean.tpir)
        rows.append([f"mean of {mean.galleries}", mean.fpir_target + star, "", tpir, "", "", small(mean.fpir), "", ""])
    head = ["gallery", "FPIR target", "threshold", "TPIR", "95 % bounds", "mated", "FPIR", "95 % bounds", "non-mated"]
    text = table(head, rows)
    every = [point for points_of_gallery in points.values() for point in points_of_gallery]
    if any(point.below_resolution for point in every):
        text += "\n* below resolution: the non-mated probes are too few to show an FPIR this low"
    if every[0].rank > 1:
        text += f"\nidentified: the mate passes and is among the {every[0].rank} best people (ties lost)"
    if every[0].rule != "at_most":
        text += f"\nrule: {every[0].rule} (a realised FPIR may lie above its target)"
    return text


def ranks_table(rates: Mapping[str, Sequence[RankRate]], means: Sequence[MeanRank] | None = None) -> str:
    """Rank-k rates of each gallery without a threshold, and their mean."""
    rows = [
        [
            name,
            str(rate.rank),
            number(rate.rate),
            f"{number(rate.lower_95)} .. {number(rate.upper_95)}",
            f"{rate.identified:,} / {rate.mated_total:,}",
        ]
        for name, own in rates.items()
        for rate in own
    ]
    rows += [[f"mean of {mean.galleries}", str(mean.rank), number(mean.rate), "", ""] for mean in means or ()]
    return table(["gallery", "rank", "identified", "95 % bounds", "mated"], rows)
