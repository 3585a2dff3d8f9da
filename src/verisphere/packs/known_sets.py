"""Sets of face images of the field, recognised by the names of files and folders, with what their publishers state.

The notes repeat what was publicly stated when this version was made. They are no legal advice; what a publisher states
now counts.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Terms = Literal["withdrawn", "non-commercial", "research only", "not stated"]


@dataclass(frozen=True)
class KnownSet:
    """A set of face images that others have published.

    Attributes:
        name: the name by which its publication calls it.
        words: names of files and folders that mean it, in lower case without marks between letters.
        terms: the narrowest of what is stated: the set, or one from which it was made, was withdrawn by its publisher;
            or it is offered for non-commercial use, or for research only; `not stated` where no terms are known here.
        note: year, source, and what is stated.
    """

    name: str
    words: tuple[str, ...]
    terms: Terms
    note: str

    def line(self) -> str:
        """One line on the set and its terms."""
        return f"{self.name}; terms: {self.terms}; {self.note}"


_CELEB = "derived from MS-Celeb-1M (2016), which its publisher, Microsoft, withdrew in 2019"
_RESEARCH = "offered for research"
_NON_COMMERCIAL = "offered for non-commercial research"

KNOWN_SETS = (
    KnownSet(
        "MS-Celeb-1M",
        ("msceleb1m", "msceleb", "celeb1m", "ms1m", "ms1mceleb"),
        "withdrawn",
        "published by Microsoft in 2016 for non-commercial research; its publisher withdrew it in 2019",
    ),
    KnownSet("MS1MV1 (InsightFace)", ("ms1mv1", "facesms1m", "facesms1m112x112", "ms1mv0"), "withdrawn", _CELEB),
    KnownSet(
        "MS1MV2 (InsightFace)",
        ("ms1mv2", "ms1mv2arcface", "facesemore", "emore", "ms1marcface", "ms1mrefinev2"),
        "withdrawn",
        _CELEB,
    ),
    KnownSet(
        "MS1MV3 (InsightFace)", ("ms1mv3", "ms1mretinaface", "ms1mretinafacet1", "ms1mrefinev3"), "withdrawn", _CELEB
    ),
    KnownSet(
        "Glint360K",
        ("glint360k", "glint360", "glint"),
        "non-commercial",
        "published in 2020 with Partial FC for non-commercial research; merged from MS-Celeb-1M (withdrawn in 2019) "
        "and Celeb-500K",
    ),
    KnownSet("DeepGlint (Trillion Pairs)", ("deepglint", "facesglint", "trillionpairs"), "withdrawn", _CELEB),
    KnownSet(
        "WebFace260M, WebFace42M, WebFace12M, WebFace4M",
        ("webface260m", "webface42m", "webface12m", "webface4m", "webface21m", "webface30m"),
        "research only",
        f"published in 2021; {_NON_COMMERCIAL}, on application",
    ),
    KnownSet(
        "CASIA-WebFace",
        ("casiawebface", "casia", "webface", "faceswebface", "faceswebface112x112", "casiawebface112x112"),
        "research only",
        f"published by CASIA in 2014; {_NON_COMMERCIAL}, on application",
    ),
    KnownSet(
        "VGGFace2",
        ("vggface2", "vgg2", "facesvgg", "facesvgg112x112", "vggface2112x112"),
        "withdrawn",
        "published by the University of Oxford in 2018; its publisher no longer offers it for download",
    ),
    KnownSet(
        "VGGFace",
        ("vggface",),
        "non-commercial",
        "published by the University of Oxford in 2015 for non-commercial use",
    ),
    KnownSet(
        "MegaFace, with FaceScrub as probes",
        ("megaface", "megaface2", "mf2", "megafacetestpack"),
        "withdrawn",
        "published by the University of Washington in 2016; its publisher ended the distribution in 2020",
    ),
    KnownSet(
        "FaceScrub", ("facescrub",), "non-commercial", f"published in 2014 as a list of addresses; {_NON_COMMERCIAL}"
    ),
    KnownSet("UMDFaces", ("umdface", "umdfaces", "facesumd"), "research only", f"published in 2016; {_NON_COMMERCIAL}"),
    KnownSet(
        "IMDb-Face",
        ("imdbface", "facesimdb"),
        "research only",
        f"published in 2018 as a list of addresses; {_NON_COMMERCIAL}",
    ),
    KnownSet(
        "Asian-Celeb",
        ("asianceleb", "glintasia", "facesglintasia"),
        "research only",
        f"of DeepGlint, 2018; {_RESEARCH}",
    ),
    KnownSet("Celeb-500K", ("celeb500k",), "not stated", "published in 2018"),
    KnownSet("CelebA", ("celeba", "imgalignceleba"), "non-commercial", "published in 2015 for non-commercial research"),
    KnownSet(
        "BUPT-Balancedface, BUPT-Globalface",
        ("buptbalancedface", "buptglobalface", "equalizedface", "globalface", "raceperace7000", "balancedface"),
        "non-commercial",
        f"published in 2020; {_NON_COMMERCIAL}, on application; its images are partly from MS-Celeb-1M (withdrawn in "
        "2019)",
    ),
    KnownSet(
        "RFW (Racial Faces in the Wild)",
        ("rfw", "rfwtest"),
        "non-commercial",
        "published in 2019 for non-commercial research, on application; its images are from MS-Celeb-1M (withdrawn in "
        "2019)",
    ),
    KnownSet(
        "LFW (Labeled Faces in the Wild)",
        ("lfw", "lfw112", "lfwfunneled", "lfwdeepfunneled", "lfwalign112x112"),
        "not stated",
        "published by the University of Massachusetts in 2007 for research; its page warns that it should not be used "
        "to conclude that an algorithm is suitable for commercial use",
    ),
    KnownSet(
        "CFP (CFP-FP, CFP-FF)",
        ("cfp", "cfpfp", "cfpff", "cfpdataset"),
        "not stated",
        "published in 2016",
    ),
    KnownSet("AgeDB", ("agedb", "agedb30"), "non-commercial", f"published in 2017; {_NON_COMMERCIAL}, on application"),
    KnownSet("CALFW", ("calfw", "calfw112"), "not stated", "published in 2017 on images of LFW"),
    KnownSet("CPLFW", ("cplfw", "cplfw112"), "not stated", "published in 2018 on images of LFW"),
    KnownSet("SLLFW", ("sllfw",), "not stated", "published in 2017 on images of LFW"),
    KnownSet("VGG2-FP", ("vgg2fp",), "withdrawn", "pairs of VGGFace2, which its publisher no longer offers"),
    KnownSet("YTF (YouTube Faces)", ("ytf", "youtubefaces"), "research only", f"published in 2011; {_RESEARCH}"),
    KnownSet(
        "IJB-A, IJB-B, IJB-C",
        ("ijba", "ijbb", "ijbc", "ijb"),
        "research only",
        "published by NIST and IARPA from 2015 to 2018, under the licences of the single images, on application",
    ),
    KnownSet("IJB-S", ("ijbs",), "research only", "published in 2018, on application"),
    KnownSet("TinyFace", ("tinyface",), "research only", f"published in 2018; {_RESEARCH}"),
    KnownSet("SurvFace (QMUL)", ("survface", "qmulsurvface"), "research only", f"published in 2018; {_RESEARCH}"),
    KnownSet("SCface", ("scface",), "research only", f"published in 2009; {_RESEARCH}, on application"),
    KnownSet("XQLFW", ("xqlfw",), "not stated", "published in 2021 on images of LFW"),
    KnownSet(
        "ORL (AT&T Database of Faces)",
        ("orl", "attfaces", "orlfaces"),
        "not stated",
        "published by AT&T Laboratories Cambridge in 1994; its page asks that the source be credited",
    ),
    KnownSet(
        "DigiFace-1M",
        ("digiface", "digiface1m"),
        "non-commercial",
        "published by Microsoft in 2022, drawn images of people who do not exist, for non-commercial research",
    ),
    KnownSet("DCFace", ("dcface",), "not stated", "published in 2023, generated images"),
    KnownSet("SFace", ("sface",), "not stated", "published in 2022, generated images; made from CASIA-WebFace"),
    KnownSet("SynFace", ("synface",), "not stated", "published in 2021, generated images"),
    KnownSet(
        "PubFig",
        ("pubfig", "pubfig83"),
        "non-commercial",
        "published in 2009 as a list of addresses, for non-commercial use",
    ),
    KnownSet("CACD", ("cacd", "cacdvs"), "research only", f"published in 2014; {_RESEARCH}"),
)

_BY_WORD = {word: known for known in KNOWN_SETS for word in known.words}


def known_set(path: Path) -> KnownSet | None:
    """The published set that the name of a file or a folder means, or else that of the folder above it.

    A name means a set where all of it does, or its beginning up to a mark between words: `faces_emore`, `lfw_112.zip`.
    The longest match counts. A name proves nothing about what is in the file.

    >>> known = known_set(Path("data/faces_emore/train.rec"))
    >>> known.name, known.terms
    ('MS1MV2 (InsightFace)', 'withdrawn')
    >>> known_set(Path("holiday/photos")) is None
    True
    """
    path = path.absolute()
    for name in (path.name if path.is_dir() else path.stem, path.parent.name):
        words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
        for length in range(len(words), 0, -1):
            if known := _BY_WORD.get("".join(words[:length])):
                return known
    return None
