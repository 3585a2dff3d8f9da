"""The results of an experiment as tables for a person and as CSV."""

from collections.abc import Mapping, Sequence

from verisphere.files.tables import csv_for_people
from verisphere.measure.set_figures import ACCURACY, COMPARED, DOMAIN_FAR, DOMAIN_TAR, DOMAIN_THRESHOLD, TAR, Figure
from verisphere.report.tables import between, number, small, table
from verisphere.study.experiments.compare import ArmFigure, ArmResult, Difference, compared
from verisphere.study.experiments.searched import COST, FOUND, REWARD

COLUMNS = ("arm", "seed", "set", "figure", "far_target", "domain", "value")
_OF_DOMAINS = (DOMAIN_TAR, DOMAIN_FAR, DOMAIN_THRESHOLD)
_TITLES = {
    "tar": "TAR at FAR {}",
    "accuracy": "accuracy over folds of pairs",
    "gamma": "gamma, how far the domains' own thresholds lie from the one threshold of FAR {}",
    "tar_std_over_domains": "standard deviation of TAR over domains, at the one threshold of FAR {}",
    "neg_log10_far_std_over_domains": "standard deviation of -log10 FAR over domains, at the one threshold of FAR {}",
}


def results_text(
    results: Mapping[str, ArmResult],
    baseline: str,
    seeds: Sequence[int],
    people: Mapping[str, int],
    below: Mapping[str, Sequence[str]],
) -> str:
    """A table for each set and figure, one of the domains, and one of the trainings.

    Of each set there is the number of people, and the target FARs that are below its resolution.
    """
    texts = []
    figures: dict[Figure, dict[str, ArmFigure]] = {}
    for arm, result in results.items():
        for figure in result.figures:
            figures.setdefault(compared(figure), {})[arm] = figure
    for key, by_arm in figures.items():
        if key.name not in COMPARED:
            continue
        head = f"{key.measured} ({people[key.measured]:,} people): {figure_title(key, _TITLES)}"
        if key.name == TAR and key.far_target in below.get(key.measured, ()):
            texts.append(f"{head}: below resolution, too few impostors to show a FAR this low")
        else:
            texts.append(f"{head}\n{_arms_table(by_arm, baseline)}")
    texts += [_domains_table(measured, figures) for measured in dict.fromkeys(key.measured for key in figures)]
    texts.append(_training_table(results))
    fewer = [
        f"{arm}: at seed{'' if len(had) == 1 else 's'} {', '.join(map(str, had))} alone"
        for arm, result in results.items()
        if len(had := result.training["seconds"].per_seed) < len(seeds)
    ]
    replicates = [
        figure.difference.replicates for by in figures.values() for figure in by.values() if figure.difference
    ]
    accuracy = any(key.name == ACCURACY for key in figures)
    return "\n\n".join(text for text in [*texts, _legend(baseline, seeds, replicates, accuracy), *fewer] if text)


def figure_title(key: Figure, titles: Mapping[str, str]) -> str:
    """The title of a compared figure; for an accuracy on one of several lists it names the list."""
    of_list = "" if key.domain is None else f", {key.domain}"
    return f"{titles[key.name].format(key.far_target)}{of_list}"


def _arms_table(by_arm: Mapping[str, ArmFigure], baseline: str) -> str:
    rows = []
    for arm, figure in by_arm.items():
        difference = figure.difference
        rows.append(
            [
                arm,
                number(figure.mean),
                _std(figure.std, figure.per_seed),
                "baseline" if arm == baseline else "-" if difference is None else f"{difference.value:+.4f}",
                "" if difference is None else between(difference.lower_95, difference.upper_95),
                "" if difference is None else _over_seeds(difference),
                "" if difference is None else _verdict(difference),
            ]
        )
    return table(["arm", "mean", "std over seeds", "difference", "95 % over people", "95 % over seeds", ""], rows)


def _over_seeds(difference: Difference) -> str:
    """Bounds of the mean over further seeds; one seed gives none."""
    if difference.inside_seed_noise is None:
        return "-"
    return between(difference.lower_95_over_seeds, difference.upper_95_over_seeds)


def _verdict(difference: Difference) -> str:
    """Whether chance can explain a difference; people are checked before seeds."""
    if difference.inside_noise:
        return "inside the noise"
    return "inside the seeds' noise" if difference.inside_seed_noise else ""


def _std(std: float, per_seed: Mapping[int, float], digits: int = 4) -> str:
    """A standard deviation over seeds; one seed gives none."""
    return number(std, digits) if len(per_seed) > 1 else "-"


def _domains_table(measured: str, figures: Mapping[Figure, Mapping[str, ArmFigure]]) -> str:
    """TAR and FAR of each domain at the one threshold, and its own threshold, as means over seeds."""
    own = {key: by_arm for key, by_arm in figures.items() if key.measured == measured and key.name in _OF_DOMAINS}
    if not own:
        return ""
    domains = list(dict.fromkeys(key.domain for key in own))
    far = next(iter(own)).far_target
    rows = []
    for arm in next(iter(own.values())):
        for name, title, spelled in (
            (DOMAIN_TAR, "TAR", number),
            (DOMAIN_FAR, "FAR", small),
            (DOMAIN_THRESHOLD, "own threshold", number),
        ):
            means = [own[Figure(measured, name, far, domain)][arm].mean for domain in domains]
            rows.append([f"{arm}: {title}", *(spelled(mean) for mean in means)])
    head = f"{measured}: domains at one threshold of FAR {far}, means over seeds"
    return f"{head}\n{table(['arm', *(str(domain) for domain in domains)], rows)}"


def _training_table(results: Mapping[str, ArmResult]) -> str:
    """Wall time and loss; where some arms are searches also their cost, the values found, and their reward."""
    rows = []
    searches = any(COST in result.training for result in results.values())
    for arm, result in results.items():
        seconds, loss = result.training["seconds"], result.training.get("loss")
        spread = ["-", "-"] if loss is None else [number(loss.mean, 3), _std(loss.std, loss.per_seed, 3)]
        rows.append([arm, f"{seconds.mean:.0f} s", *spread, *(_of_search(result) if searches else [])])
    head = ["arm", "wall time", "last loss", "std over seeds"]
    head += ["trainings", "reward selected by", "found at each seed"] if searches else []
    return f"trainings\n{table(head, rows)}" if rows else ""


def _of_search(result: ArmResult) -> list[str]:
    """The cost of a search as a multiple of one training, its reward, and the values that it found."""
    if COST not in result.training:
        return ["1", "", ""]
    found = {name: figure for name, figure in result.training.items() if name.startswith(f"{FOUND} ")}
    words = [
        f"{name.removeprefix(f'{FOUND} ')} {', '.join(f'{value:.3g}' for value in figure.per_seed.values())}"
        for name, figure in found.items()
    ]
    return [f"{result.training[COST].mean:.3g}", number(result.training[REWARD].mean), "; ".join(words)]


def _legend(baseline: str, seeds: Sequence[int], replicates: Sequence[int], accuracy: bool) -> str:
    lines = [f"means over {len(seeds)} seed{'' if len(seeds) == 1 else 's'} ({', '.join(map(str, seeds))})"]
    if len(seeds) == 1:
        lines[0] += ": one training an arm does not say what another seed would change"
    if replicates:
        lines.append(
            f"difference: mean over seeds to {baseline} at the same seed, with the middle 95 % of {replicates[0]:,} "
            "redrawings of people, the same for all arms and seeds, thresholds found anew in each (rule: at_most)"
        )
        if accuracy:
            lines.append("of an accuracy the thresholds of the folds are held fixed in each redrawing")
        lines.append("of gamma and the spreads, which redrawing inflates, that middle is reflected at the difference")
        lines.append("95 % over people: these trainings on other people")
        if len(seeds) > 1:
            lines[-1] += "; over seeds: more trainings (Student's t) on these people; both must exclude zero to count"
    return "\n".join(lines)


def results_csv(
    figures: Mapping[tuple[str, int], Mapping[Figure, float]], trainings: Mapping[tuple[str, int], Mapping[str, float]]
) -> str:
    """One row for each training, set and figure; figures of the training itself have no set."""
    rows: list[list[object]] = []
    for (arm, seed), values in trainings.items():
        rows += ([arm, seed, "", name, "", "", repr(value)] for name, value in values.items())
        for key, value in figures.get((arm, seed), {}).items():
            rows.append([arm, seed, key.measured, key.name, key.far_target, key.domain or "", repr(value)])
    return csv_for_people(COLUMNS, rows)
