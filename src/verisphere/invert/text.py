"""The figures of an inversion as text."""

from verisphere.report.inversion_findings import InversionFindings, Likeness
from verisphere.report.tables import number, table

_OF = {"inverted": "the model itself", "judge": "the judge"}


def findings_text(findings: InversionFindings) -> str:
    """Tables of likeness, distances and pairs."""
    blocks = []
    if findings.likeness:
        header = ["cosine under", "own photo", "own person", "others", "others, 95 %", "real, own", "real, others"]
        blocks.append(table(header, [_row(entry) for entry in findings.likeness]))
    blocks += [
        f"accepted at FAR {ours.far_target} under {_OF[entry.model]}: {ours.genuine_accepted} of {ours.genuine_total} "
        f"images (95 % {number(ours.tar_lower_95, 3)} .. {number(ours.tar_upper_95, 3)})"
        + (f"; photographs {number(entry.real_points[place].tar, 3)}" if entry.real_points else "")
        + (
            f"; strangers' photographs, chosen likewise, {number(entry.stranger_points[place].tar, 3)}"
            if entry.stranger_points
            else ""
        )
        for entry in findings.likeness
        for place, ours in enumerate(entry.points)
        if not ours.below_resolution
    ]
    blocks += [
        f"{one.name} distance from photographs of others ({_OF[one.space]}, {one.images:,} images): "
        f"{number(one.generated, 4)}; real photographs {number(one.real, 4)}"
        for one in findings.distances
    ]
    blocks += [
        f"accuracy on {one.pairs:,} pairs, {one.sides} ({_OF[one.model]}): {number(one.mean, 4)} +- "
        f"{number(one.standard_error, 4)} over {one.folds} folds"
        for one in findings.pairs
    ]
    if findings.likeness and (judged := findings.likeness[-1]).recognised is not None:
        verdict = "exceeds" if judged.recognised else "does not exceed"
        blocks.append(f"mean own cosine under {_OF[judged.model]} {verdict} the 95 % quantile of those to others")
    return "\n".join(blocks) or f"{len(findings.images):,} images; without photographs nothing is compared"


def _row(entry: Likeness) -> list[str]:
    cells = [None if found is None else found.mean for found in (entry.same_photo, entry.same_person, entry.others)]
    quantile = None if entry.others is None else entry.others.quantile_95
    real = [None if found is None else found.mean for found in (entry.real_same_person, entry.real_others)]
    return [_OF[entry.model], *("-" if value is None else number(value, 3) for value in (*cells, quantile, *real))]
