"""Small sets of templates, of galleries with distractors and of groups, each in the layout of its publisher."""

from pathlib import Path

from studies.protocols.published.pool import IMAGES, Pool, name_of

_IJB_PEOPLE = 24
#: The five points of the crop that the networks of the field were trained on (ArcFace, 112 x 112): image coordinates.
_POINTS = "38.2946 51.6963 73.5318 51.5014 56.0252 71.7366 41.5493 92.3655 70.7299 92.2041"


def write_ijbc(pool: Pool, folder: Path) -> None:
    """IJB-C (Maze et al. 2018) as InsightFace lays it out: loose crops, `meta` with templates, media, pairs, galleries.

    Each person has a gallery template, of two frames of a video and a still image, and two probe templates; the people
    of the galleries G1 and G2 are disjoint. Every gallery template is paired with every probe template.
    """
    meta = folder / "meta"
    meta.mkdir(parents=True)
    rows, points = list[str](), list[str]()
    gallery, probes = dict[int, int](), dict[int, int]()
    for person in range(_IJB_PEOPLE):
        enrolled, first, second = 11 + 3 * person, 5001 + 7 * person, 5004 + 7 * person
        gallery[enrolled] = probes[first] = probes[second] = person
        media = (enrolled, 70 + person), (enrolled, 70 + person), (enrolled, 900 + person)
        for image, (template, medium) in enumerate(
            (*media, (first, 300 + person), (first, 500), (second, 300 + person))
        ):
            number = len(rows) + 1
            pool.write(folder / "loose_crop" / f"{number}.jpg", person, image)
            rows.append(f"{number}.jpg {template} {medium}\n")
            points.append(f"{number}.jpg {_POINTS} {0.5 + number % 50 / 100:.2f}\n")
    (meta / "ijbc_face_tid_mid.txt").write_text("".join(rows))
    (meta / "ijbc_name_5pts_score.txt").write_text("".join(points))
    (meta / "ijbc_template_pair_label.txt").write_text(
        "".join(
            f"{enrolled} {probe} {int(person == other)}\n"
            for enrolled, person in gallery.items()
            for probe, other in probes.items()
        )
    )
    half = _IJB_PEOPLE // 2
    files = {
        "gallery_G1": {template: person for template, person in gallery.items() if person < half},
        "gallery_G2": {template: person for template, person in gallery.items() if person >= half},
        "probe_mixed": probes,
    }
    for name, templates in files.items():
        lines = [f"{template},{100 + person},img/{template}.jpg\n" for template, person in templates.items()]
        (meta / f"ijbc_1N_{name}.csv").write_text("TEMPLATE_ID,SUBJECT_ID,FILENAME\n" + "".join(lines))


def write_tinyface(pool: Pool, folder: Path) -> None:
    """TinyFace (Cheng et al. 2018): probes, the gallery of their people, and distractors; the file names the person."""
    place = folder / "Testing_Set"
    for person in range(20):
        for image in range(4):
            side = "Probe" if image < 2 else "Gallery_Match"
            pool.write(place / side / f"{person + 1}_{image + 1}.jpg", person, image)
    for person in range(20, 50):
        pool.write(place / "Gallery_Distractor" / f"{person}_0_{person}_crop.jpg", person, 0)


def write_megaface(pool: Pool, folder: Path) -> None:
    """MegaFace (Kemelmacher-Shlizerman et al. 2016): probes of FaceScrub, distractors, and the lists of noisy images.

    One image of a probe person and three distractors are listed as noisy; the noisy probe shows somebody else.
    """
    folder.mkdir(parents=True)
    probes = [(person, image) for person in range(8) for image in range(5)]
    lines = []
    for person, image in probes:
        name = f"{name_of(person)}/{name_of(person)}_{1000 + image}.png"
        pool.write(folder / "facescrub_images" / name, 59 if (person, image) == (3, 4) else person, image)
        lines.append(name)
    (folder / "facescrub_lst").write_text("".join(f"{line}\n" for line in lines))
    distractors = []
    for person in range(8, 58):
        name = f"{person % 7}/{person}@N00/{9000 + person}_0.jpg"
        shown = (person - 8) if person < 11 else person  # three distractors show people of the probes
        pool.write(folder / "megaface_images" / name, shown, 5)
        distractors.append(name)
    (folder / "megaface_lst").write_text("".join(f"{line}\n" for line in distractors))
    (folder / "facescrub_noises.txt").write_text(f"# images that show somebody else\n{name_of(3)}_1004.png\n")
    noisy = "".join(f"{line}\n" for line in distractors[:3])
    (folder / "megaface_noises.txt").write_text(f"# distractors that show people of the probes\n{noisy}")


def write_groups(pool: Pool, folder: Path) -> None:
    """Groups of people, `GROUP/Name/image`, as all pairs by group are measured (MFR's multi-racial test, OneFace)."""
    for person in range(40):
        group = ("East", "North", "South", "West")[person % 4]
        for image in range(3):
            pool.write(folder / group / name_of(person) / f"{image + 1}.jpg", person, (image + person) % IMAGES)
