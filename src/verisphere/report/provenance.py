"""The sections of a report page on the provenance of its numbers: rules, models, files, recipes."""

from verisphere.decide.intervals import COVERAGE, FEWEST_WITH_ERRORS
from verisphere.report.findings import Contents, File
from verisphere.report.html import Markup, breakable, definitions, joined, table, tag


def recipes(contents: Contents) -> Markup:
    """The resolved recipe of each run, collapsed."""
    return joined(
        *(
            tag("details", tag("summary", f"{run.title}: recipe.yaml"), tag("pre", run.recipe))
            for run in contents.trainings
        )
    )


def provenance(contents: Contents) -> Markup:
    """The rules behind the numbers, and the files that the numbers come from."""
    rules = definitions(*_rules(contents)) if contents.findings else ""
    models = [tag("p", tag("strong", findings.title), f": {findings.model}") for findings in contents.findings]
    rows = [
        [breakable(file.name), tag("code", file.sha256) if file.sha256 else "not read from a file"]
        for file in _files(contents)
    ]
    return joined(
        rules,
        *([tag("h3", "Models"), *models] if models else []),
        tag("h3", "Files"),
        table("What was read", ["File", "SHA-256"], rows, prose=True),
    )


def _rules(contents: Contents) -> list[tuple[str, str]]:
    points = max(len(findings.curve.thresholds) for findings in contents.findings)
    return [
        (
            "Score",
            "The cosine of two embeddings, summed in double precision from unit rows in single precision; higher is "
            "more alike.",
        ),
        (
            "Pairs",
            "Every two images of a set, once, and no image with itself; genuine where the two identities agree, "
            "impostor otherwise.",
        ),
        (
            "Decision",
            "Accept iff score > threshold. TAR (TMR in ISO/IEC 19795-1) is the share of genuine pairs accepted, FAR "
            "(FMR) that of impostor pairs.",
        ),
        (
            "Threshold at a FAR f",
            "With n impostor scores and k = floor(f n) in exact arithmetic, the (k + 1)-th largest: the smallest "
            "threshold whose FAR does not exceed f. Ties at the threshold are rejected. Where f n < 1 the set is too "
            "small for f, and no TAR is stated.",
        ),
        (
            "Bounds",
            "Beside counts: exact two-sided binomial bounds (Clopper and Pearson) at 95 %. Over people: the middle "
            f"95 % of {contents.replicates:,} bootstrap replicates (seed {contents.seed}) that redraw identities and "
            f"find the threshold anew; {COVERAGE}. Where rejected genuine pairs are of fewer than "
            f"{FEWEST_WITH_ERRORS} people, the binomial bounds of TAR are given in its place.",
        ),
        (
            "One threshold",
            f"The threshold at FAR {contents.far} over the impostor pairs of all domains, pairs across domains "
            "included. A domain's own threshold has the same FAR over the pairs within it.",
        ),
        (
            "Plots",
            f"A curve shows up to {points:,} of its thresholds, each with exact counts. Histograms count genuine pairs "
            "exactly, and impostor pairs to within a cell of score that is a small part of a bin.",
        ),
    ]


def _files(contents: Contents) -> list[File]:
    files = [findings.file for findings in contents.findings]
    files += [file for run in contents.trainings for file in run.files]
    if contents.calibrated is not None and contents.calibrated.file.sha256 not in {file.sha256 for file in files}:
        files.append(contents.calibrated.file)
    return list(dict.fromkeys(files))
