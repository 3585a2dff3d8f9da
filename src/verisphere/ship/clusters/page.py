"""The page of clusters: what a person should look at, most doubtful first, and the pictures of the largest clusters."""

from collections.abc import Callable, Iterable, Sequence

from verisphere.base.words import counted
from verisphere.files.clusters import MOST_PROPOSALS, PEOPLE, Cluster, Clusters, Face
from verisphere.files.results import first_lines
from verisphere.images.faces import Faces
from verisphere.report.blocks import Page, Section
from verisphere.report.html import Markup, breakable, tag
from verisphere.report.pictures import SHOWS_PEOPLE, face_row, pair_cards, pictures
from verisphere.report.tables import number

PAGE = "index.html"
MOST_CARDS = 80  # of each kind; more would make the page slow, and the files have all
MOST_CLUSTERS = 120
FIRST, LAST = 3, 9  # pictures of a large cluster: wrong faces are mostly among the last

_Card = tuple[Sequence[Sequence[str]], Sequence[str]]  # rows of names of faces beside each other, and lines about them
_Risk = Callable[[float], str]


def clusters_page(clusters: Clusters, faces: Faces, risk: _Risk | None = None) -> Page:
    """The page, with images under the names of the embeddings, of which only those that are shown are read.

    The risk says how often a merge would be wrong at a score less what small groups pay.
    """
    several = [cluster for cluster in clusters.clusters if len(cluster.faces) > 1]
    ends = [(cluster, cluster.faces[:FIRST], cluster.faces[FIRST:][-LAST:]) for cluster in several[:MOST_CLUSTERS]]
    doubts = [doubt for doubt in _doubts(clusters, several, risk or (lambda score: "")) if doubt[-1]]
    names = [name for *_, cards in doubts for rows, _ in cards[:MOST_CARDS] for row in rows for name in row]
    names += [face.name for _, first, last in ends for face in (*first, *last)]
    uris = pictures(faces, names) if names else {}
    who = [] if faces.source.drawn else [SHOWS_PEOPLE]
    sections = [Section("In short", "about", [*_about(clusters), *who])]
    for heading, anchor, told, cards in doubts:
        shown = [
            [*(face_row(row, uris) for row in rows), *(tag("p", breakable(line)) for line in lines)]
            for rows, lines in cards[:MOST_CARDS]
        ]
        sections.append(Section(heading, anchor, [tag("p", told, _first(shown, cards)), pair_cards(shown)]))
    if ends:
        told = f"The first {FIRST} faces and the last {LAST} of each, the highest average score with the others first."
        blocks = [tag("p", told, _first(ends, several))]
        for cluster, first, last in ends:
            shots = [
                tag(
                    "li",
                    tag("img", src=uris[face.name], alt=f"Face: {face.name}"),
                    tag("span", _score(face.score), " confirmed" if face.confirmed else "", class_="angle"),
                    tag("span", breakable(face.name), class_="file"),
                )
                for face in (*first, *last)
            ]
            if between := len(cluster.faces) - len(shots):
                shots.insert(FIRST, tag("li", f"{between:,} more between"))
            blocks += [tag("h3", _named(cluster)), tag("ul", *shots, class_="shots")]
        sections.append(Section(f"Clusters of two faces or more ({len(several):,})", "clusters", blocks))
    made = "These pictures may be of people: mind to whom the page is given."
    return Page(f"People of {clusters.source.file}", sections, made, "cleaning.css")


def _about(clusters: Clusters) -> Iterable[Markup]:
    faces = counted(len(list(clusters.rows())), "face")
    yield tag("p", f"{faces}: {clusters.counts()}. Threshold {clusters.threshold:g}.", class_="lead")
    nothing = "Nothing is promised of these clusters: how many faces are with another person is not known."
    yield tag("p", f"{clusters.promise[0].upper()}{clusters.promise[1:]}." if clusters.promise else nothing)
    if (known := clusters.known) is not None:
        yield from (tag("p", f"{note}.") for note in first_lines([clusters.source], clusters.implausible).splitlines())
        told = (
            f"By the identities of the file, {100 * known.impurity:.2f} % of its faces are in a cluster that is mostly "
            f"of another person, {counted(known.mixed, 'cluster')} {'holds' if known.mixed == 1 else 'hold'} faces of "
            f"two people or more, and B-cubed recall is {number(known.recall)}."
        )
        yield tag("p", told)
    told = (
        f"To name and confirm people, write a name into the column person of {PEOPLE} and yes into the column "
        "confirmed, and cluster again with --before. One confirmed face names its whole cluster; to take a wrong face "
        "out, confirm it and a right one under their names. Clusters with confirmed faces of one name become one."
    )
    yield tag("p", told)


def _doubts(clusters: Clusters, several: Sequence[Cluster], risk: _Risk) -> Iterable[tuple[str, str, str, list[_Card]]]:
    """The sections of merge proposals and of doubtful faces: heading, anchor, what is said of it, and cards."""
    cluster_of = {cluster.person: cluster for cluster in clusters.clusters}

    def beside(cluster: Cluster, face: Face, *more: str) -> _Card:
        lines = [face.name, f"score {_score(face.score)} with {_named(cluster)}", *more]
        return [_with_medoid(cluster, face.name)], lines

    merges = list[_Card]()
    for pair in clusters.proposals:
        both = [(cluster_of[who], name) for who, name in ((pair.person, pair.name), (pair.other, pair.other_name))]
        lines = [f"score {pair.score:.4f}, {pair.needed:.4f} needed"]
        lines += filter(None, [risk(pair.score - pair.needed + clusters.threshold)])
        lines += [_named(cluster) for cluster, _ in both]
        merges.append(([_with_medoid(cluster, name) for cluster, name in both], lines))
    told = (
        f"Merge proposals, {MOST_PROPOSALS} at most: a row for each cluster, with its medoid and the face that is "
        "nearest to the other cluster. Relatives and look-alikes are among them; nothing was merged. Where the score "
        "would suffice, one of the two was nearer to a third cluster at first, and with that it does not suffice."
    )
    yield f"Clusters that may be one person ({len(merges):,})", "merges", told, merges

    unsure = list[_Card]()
    for cluster, face, left in clusters.rows():
        if left:
            sides = (cluster.person, face.score), (str(face.nearest), face.nearest_score)
            lines = [face.name, *(f"score {_score(score)} with {person}" for person, score in sides)]
            unsure.append(([[_with_medoid(cluster_of[person])[0], face.name] for person, _ in sides], lines))
    told = "Each is to the right of the medoids of two clusters: that where it was grouped, and the nearer one below."
    yield f"Unsure faces ({len(unsure):,})", "unsure", told, unsure

    fit = [(cluster, face) for cluster in several for face in cluster.faces[1:] if not face.confirmed]
    fit.sort(key=lambda of: of[1].score or 0.0)
    told = (
        f"Each is to the right of the medoid of its cluster, the lowest average score first; {PEOPLE} has all scores."
    )
    yield "Faces that fit least", "fit", told, [beside(cluster, face) for cluster, face in fit[:MOST_CARDS]]

    moved = [
        beside(cluster, face, f"before: {face.before}{', now unsure' if left else ''}")
        for cluster, face, left in clusters.rows()
        if face.before is not None
    ]
    told = "Each was in another cluster before, and nobody has confirmed it."
    yield f"Faces that are grouped otherwise than before ({len(moved):,})", "moved", told, moved


def _with_medoid(cluster: Cluster, *names: str) -> list[str]:
    return list(dict.fromkeys(((*cluster.faces, *cluster.unsure)[0].name, *names)))


def _named(cluster: Cluster) -> str:
    confirmed, count = sum(face.confirmed for face in cluster.faces), counted(len(cluster.faces), "face")
    return f"{cluster.person}: {count}, {confirmed:,} confirmed" if confirmed else f"{cluster.person}: {count}"


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.3f}"


def _first(shown: Sequence[object], total: Sequence[object]) -> str:
    if len(shown) == len(total):
        return ""
    return f" The first {len(shown):,} of {len(total):,} are shown; {PEOPLE} has all faces."
