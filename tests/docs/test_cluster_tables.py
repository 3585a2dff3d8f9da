"""The tables and figures of docs/clusters.md, and of docs/lab/lfw_noise.md on clusters, are those of the files."""

from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
MADE_BY = "clusters_page"


def test_what_the_page_of_clusters_shows_is_that_of_the_file(made: ModuleType):
    found = {line["figure"]: line["value"] for line in made.lines_of(ROOT / "benchmarks" / "clusters_look.csv")}
    page = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    about, others, of_clusters = (found[name] for name in ("megabytes", "faces that fit least with another label",
                                                           "clusters of these"))  # fmt: skip
    assert f"the page has {about} MB" in page
    assert f"{found['mixed by labels']} of its clusters hold two people or more" in page
    assert f"{others} of the 80 faces that fit least have another label" in page
    assert f"they are in {of_clusters} of these clusters" in page
    enough, right = (found[name] for name in ("merge proposals whose score would suffice",
                                              "of these of one person by label"))  # fmt: skip
    assert f"that is so for {enough} of the 200, of which {right} shows one person by its labels" in page
    for person in ("Jia_Qinglin", "Roberto_Lavagna", "Ben_Chandler", "George_W_Bush"):
        assert found[f"last with {person}"] == person
    size = found["faces of the cluster of George_W_Bush"]
    assert f"Of the {size} faces of George_W_Bush's cluster, the last are of him" in page
    for person, other in (("Jia_Qinglin", "Roh_Moo-hyun"), ("Roberto_Lavagna", "Igor_Ivanov"), ("Ben_Chandler", "")):
        assert f"{person} with {other}" in page
        assert f"({found[f'faces of the cluster of {person}']}" in page
    twins = [float(value) for name, value in found.items() if " and " in name]
    assert len(twins) == 3
    assert f"average scores between the two of {min(twins):.2f} to {max(twins):.2f}" in page


def test_clusters_of_lfw_are_as_good_as_asked(made: ModuleType):
    rows = made.read_rows()
    best = made.row_of(rows, "LFW, corrected", "pretrained", made.OURS)
    strict = made.row_of(rows, "LFW, corrected", "pretrained", made.OURS, made.STRICT)
    assert float(best["f"]) >= 0.985
    assert float(strict["recall"]) >= 0.96
    lines = [line for line in made.lines_of(made.JUDGED) if line["at_recall_0.96"] == "yes"]
    assert len(lines) == float(strict["mixed"])
    assert sum(line["kind"] in ("cannot tell", "look-alikes") for line in lines) <= 10


def test_every_mixed_cluster_was_looked_at(made: ModuleType):
    best = made.row_of(made.read_rows(), "LFW, corrected", "pretrained", made.OURS)
    lines = made.lines_of(made.JUDGED)
    assert {line["kind"] for line in lines} <= set(made.KINDS)
    # one cluster holds three people, so it is in two lines
    assert len({line["left"] for line in lines}) == float(best["mixed"]) == len(lines) - 1


def test_two_methods_are_as_good_as_ours_within_chance(made: ModuleType):
    rows = made.read_rows()
    behind = {
        method: all(
            float(made.row_of(rows, "LFW, corrected", model, method)["difference_lower"]) > 0 for model in made.MODELS
        )
        for method in made.of_set(rows, "LFW, corrected")
        if method != made.OURS
    }
    assert {method for method in behind if not behind[method]} == {"Chinese whispers", "k-NN and Infomap"}
    alone = [float(row["unsure"]) for row in rows if (row["method"], row["set"]) == ("immich's rule", "LFW")]
    assert min(alone) > 0.4


def test_the_sentences_state_the_figures(made: ModuleType):
    rows, page = made.read_rows(), (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    strict = made.row_of(rows, "LFW, corrected", "pretrained", made.OURS, made.STRICT)
    assert f"B-cubed recall {float(strict['recall']):.4f}" in page
    assert f"{made.mixed(strict)} clusters are mixed" in page
    raw, best = (
        made.row_of(rows, f"LFW, {labels}", "pretrained", made.OURS) for labels in ("as published", "corrected")
    )
    errors = float(raw["mixed"]) - float(best["mixed"])
    assert f"{errors:.0f} of the {made.mixed(raw)} mixed clusters of ours are errors of the labels alone" in page
    noisy = made.row_of(rows, "LFW, as published", "pretrained", made.OURS, made.STRICT)
    assert f"{made.mixed(noisy)} would be mixed, not {made.mixed(strict)}" in page
    judged = [line["kind"] for line in made.lines_of(made.JUDGED) if line["at_recall_0.96"] == "yes"]
    assert sum(kind in ("twins", "relatives", "label error") for kind in judged) == 9  # "nine hold twins, ..."
