"""Published sets of face images, recognised by the names of files and folders, with their publishers' statements.

The notes repeat what could be found of public statements (pages of publishers and their copies, read-me files, papers,
reports on what went offline) when this version was made. They are no legal advice; the current statement of the
publisher counts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal

Terms = Literal["withdrawn", "non-commercial", "research only", "not stated"]


@dataclass(frozen=True)
class KnownSet:
    """A set of face images that others have published.

    Attributes:
        name: name of the set in its publication.
        words: names of files and folders that refer to the set, in lower case without marks between letters.
        terms: the narrowest known terms. `withdrawn`: the publisher no longer offers the set, or a set whose images it
            contains. `research only`: offered for research alone. `non-commercial`: offered for non-commercial use,
            such as research and education. `not stated`: no terms could be found.
        note: year, publisher, and the stated terms.
    """

    name: str
    words: tuple[str, ...]
    terms: Terms
    note: str

    def line(self) -> str:
        """One line on the set and its terms."""
        return f"{self.name}; terms: {self.terms}; {self.note}"


_CELEB = "MS-Celeb-1M (2016), which its publisher, Microsoft, withdrew in 2019"
_INSIGHTFACE = f"derived from {_CELEB}; InsightFace offers its training data for non-commercial research only"
_VGGFACE2 = "VGGFace2 (2018), which its publisher, the University of Oxford, took offline in 2020"
_NO_LICENCE = "its publisher states no licence that could be found"
_BUPT = "Beijing University of Posts and Telecommunications"

KNOWN_SETS = (
    KnownSet(
        "MS-Celeb-1M",
        ("msceleb1m", "msceleb", "celeb1m", "ms1m", "ms1mceleb", "ms1mv0", "ms1mworfw", "cmsceleb"),
        "withdrawn",
        "published by Microsoft in 2016 for non-commercial research; its publisher withdrew it in 2019",
    ),
    KnownSet("MS1MV1 (InsightFace, MS1M-IBUG)", ("ms1mv1", "ms1mibug", "facesms1m"), "withdrawn", _INSIGHTFACE),
    KnownSet(
        "MS1MV2 (InsightFace, MS1M-ArcFace)",
        ("ms1mv2", "ms1mv2arcface", "emore", "ms1marcface", "ms1mrefinev2"),
        "withdrawn",
        _INSIGHTFACE,
    ),
    KnownSet(
        "MS1MV3 (InsightFace, MS1M-RetinaFace)",
        ("ms1mv3", "ms1mretinaface", "ms1mretinafacet1", "ms1mrefinev3"),
        "withdrawn",
        _INSIGHTFACE,
    ),
    KnownSet(
        "Glint360K",
        ("glint360k", "glint360", "glintmini"),
        "withdrawn",
        f"in part from {_CELEB}; published with Partial FC in 2020 for non-commercial research only",
    ),
    KnownSet(
        "DeepGlint (MS-Celeb-1M-v1c and Asian-Celeb)",
        ("deepglint", "facesglint", "trillionpairs", "msceleb1mv1c", "ms1mv1c", "trainmsra"),
        "withdrawn",
        f"in part from {_CELEB}; published by DeepGlint in 2018 for its challenge Trillion Pairs, under CC BY-NC 4.0",
    ),
    KnownSet(
        "Asian-Celeb",
        ("asianceleb", "glintasia"),
        "non-commercial",
        "published by DeepGlint in 2018 for its challenge Trillion Pairs, under CC BY-NC 4.0",
    ),
    KnownSet(
        "WebFace260M, WebFace42M, WebFace12M, WebFace4M",
        ("webface260m", "webface42m", "webface30m", "webface21m", "webface12m", "webface4m", "webface600k"),
        "research only",
        "published by Tsinghua University and XForwardAI in 2021, for academic research only, on a signed agreement",
    ),
    KnownSet(
        "CASIA-WebFace",
        ("casiawebface", "casia", "webface", "casiamaxpy"),
        "non-commercial",
        "published by the Chinese Academy of Sciences in 2014, for non-commercial research and education, on a signed "
        "agreement",
    ),
    KnownSet(
        "VGGFace2",
        ("vggface2", "vgg2", "facesvgg"),
        "withdrawn",
        "published by the University of Oxford in 2018; its publisher took it offline in 2020",
    ),
    KnownSet(
        "VGGFace",
        ("vggface",),
        "non-commercial",
        "published by the University of Oxford in 2015 as a list of addresses, under CC BY-NC 4.0; reported as removed "
        "since (AIAAIC)",
    ),
    KnownSet(
        "MegaFace",
        ("megaface", "megaface2", "mf2", "megafacetestpack"),
        "withdrawn",
        "published by the University of Washington in 2016; its publisher ended the distribution in June 2020",
    ),
    KnownSet(
        "FaceScrub",
        ("facescrub",),
        "non-commercial",
        "published by its authors in 2014 as a list of addresses; the author's project to download it is under "
        "CC BY-NC 4.0",
    ),
    KnownSet(
        "UMDFaces",
        ("umdface", "umdfaces", "facesumd"),
        "not stated",
        f"published by the University of Maryland in 2016; reported as no longer offered since 2019; {_NO_LICENCE}",
    ),
    KnownSet(
        "IMDb-Face",
        ("imdbface", "facesimdb"),
        "non-commercial",
        "published by its authors (SenseTime) in 2018 as a list of addresses, for non-commercial research or education",
    ),
    KnownSet(
        "IMDB-WIKI",
        ("imdbwiki", "imdbcrop", "wikicrop"),
        "research only",
        "published by ETH Zurich in 2015, for academic research only",
    ),
    KnownSet(
        "Celeb-500K",
        ("celeb500k",),
        "not stated",
        f"published by its authors in 2018 as a list of addresses; {_NO_LICENCE}",
    ),
    KnownSet(
        "CelebA, CelebA-HQ",
        ("celeba", "imgalignceleba", "celebahq", "celebamaskhq"),
        "research only",
        "published by the Chinese University of Hong Kong in 2015, for non-commercial research only",
    ),
    KnownSet("FFHQ", ("ffhq",), "non-commercial", "published by NVIDIA in 2019, under CC BY-NC-SA 4.0"),
    KnownSet(
        "BUPT-Balancedface, BUPT-Globalface",
        ("buptbalancedface", "buptbalanced", "buptglobalface", "buptglobal", "buptequalizedface", "raceper7000"),
        "withdrawn",
        f"in part from {_CELEB}; published by {_BUPT} in 2020",
    ),
    KnownSet(
        "RFW (Racial Faces in the Wild)",
        ("rfw",),
        "withdrawn",
        f"selected from {_CELEB}; published by {_BUPT} in 2019, on a signed agreement",
    ),
    KnownSet(
        "BFW (Balanced Faces in the Wild)",
        ("bfw",),
        "withdrawn",
        f"made from {_VGGFACE2}; published by Northeastern University in 2020, on registration",
    ),
    KnownSet(
        "LFW (Labeled Faces in the Wild)",
        ("lfw", "lfw112", "lfwa", "lfwfunneled", "lfwdeepfunneled", "lfwhome", "lfwpy"),
        "not stated",
        "published by the University of Massachusetts in 2007; its page, offline since 2025, states no licence that "
        "could be found; it warns that results on LFW should not be used to conclude that an algorithm is suitable for "
        "any commercial purpose",
    ),
    KnownSet(
        "CFP (CFP-FP, CFP-FF)",
        ("cfp", "cfpfp", "cfpff", "cfpw"),
        "not stated",
        f"published by its authors in 2016; {_NO_LICENCE}",
    ),
    KnownSet(
        "AgeDB",
        ("agedb",),
        "non-commercial",
        "published by Imperial College London in 2017, on application; reported as non-commercial",
    ),
    KnownSet("CALFW", ("calfw", "calfw112"), "not stated", f"published by {_BUPT} in 2017 on LFW; {_NO_LICENCE}"),
    KnownSet("CPLFW", ("cplfw", "cplfw112"), "not stated", f"published by {_BUPT} in 2018 on LFW; {_NO_LICENCE}"),
    KnownSet("SLLFW", ("sllfw",), "not stated", f"published in 2017 on LFW; {_NO_LICENCE}"),
    KnownSet(
        "XQLFW",
        ("xqlfw",),
        "not stated",
        "published by the Technical University of Munich in 2021 on LFW; the licence of its repository (MIT) is stated "
        "for the code",
    ),
    KnownSet("VGG2-FP", ("vgg2fp", "vggface2fp"), "withdrawn", f"pairs of {_VGGFACE2}"),
    KnownSet(
        "YTF (YouTube Faces)",
        ("ytf", "youtubefaces"),
        "not stated",
        f"published by Tel Aviv University in 2011, on a form; {_NO_LICENCE}",
    ),
    KnownSet(
        "IJB-A, IJB-B, IJB-C",
        ("ijba", "ijbb", "ijbc", "ijb"),
        "withdrawn",
        "published by NIST from 2015 to 2018, on application; their publisher ended the distribution on 14 March 2023",
    ),
    KnownSet("IJB-S", ("ijbs",), "not stated", f"published in 2018; {_NO_LICENCE}"),
    KnownSet(
        "TinyFace",
        ("tinyface",),
        "withdrawn",
        "in part from MegaFace, whose publisher, the University of Washington, ended its distribution in June 2020; "
        "published by Queen Mary University of London in 2018",
    ),
    KnownSet(
        "SurvFace (QMUL)",
        ("survface", "qmulsurvface"),
        "not stated",
        f"published by Queen Mary University of London in 2018; {_NO_LICENCE}",
    ),
    KnownSet(
        "SCface",
        ("scface",),
        "research only",
        "published by the University of Zagreb in 2009, for the research community, on application",
    ),
    KnownSet(
        "UCCS (UnConstrained College Students)",
        ("uccs", "uccsfaces"),
        "research only",
        "published by the University of Colorado in 2016, taken offline in April 2019, since then offered under a "
        "restricted licence for research",
    ),
    KnownSet(
        "RMFD (Real-World Masked Face Dataset)",
        ("rmfd", "rmfrd", "rwmfd", "smfrd"),
        "not stated",
        f"published by Wuhan University in 2020; {_NO_LICENCE}",
    ),
    KnownSet(
        "PubFig",
        ("pubfig", "pubfig83"),
        "non-commercial",
        "published by Columbia University in 2009 as a list of addresses, for non-commercial use only",
    ),
    KnownSet("CACD", ("cacd", "cacdvs", "cacd2000"), "not stated", f"published by its authors in 2014; {_NO_LICENCE}"),
    KnownSet(
        "ORL (AT&T Database of Faces)",
        ("orl", "attfaces", "orlfaces", "olivetti", "olivettifaces"),
        "not stated",
        "published by AT&T Laboratories Cambridge in 1994; its page asks that the source be credited",
    ),
    KnownSet(
        "DigiFace-1M",
        ("digiface", "digiface1m"),
        "research only",
        "published by Microsoft in 2022, rendered images of people who do not exist, for non-commercial research",
    ),
    KnownSet(
        "DCFace",
        ("dcface", "dcface05moversamplexid", "dcface12moversamplexid"),
        "not stated",
        f"published by its authors in 2023, generated images; {_NO_LICENCE}",
    ),
    KnownSet(
        "SFace, SFace2",
        ("sface", "sface2"),
        "non-commercial",
        "published by Fraunhofer IGD in 2022 and 2024, generated images, under CC BY-NC-SA 4.0, on application",
    ),
    KnownSet(
        "IDiff-Face",
        ("idiffface",),
        "non-commercial",
        "published by Fraunhofer IGD in 2023, generated images, under CC BY-NC-SA 4.0, on application",
    ),
    KnownSet(
        "SynFace", ("synface",), "not stated", f"published by its authors in 2021, generated images; {_NO_LICENCE}"
    ),
    KnownSet(
        "HSFace (Vec2Face)",
        ("hsface", "hsfaces", "hsface10k", "hsface20k", "hsface100k", "hsface200k", "hsface300k"),
        "not stated",
        f"published by its authors in 2024, generated images; {_NO_LICENCE}",
    ),
)

_BY_WORD = {word: known for known in KNOWN_SETS for word in known.words}

# Words that copies of any set have in their names: what was done to the images, which part they are, formats, and
# numbers such as 112x112, 00017, v2, part3.
_OF_A_COPY = re.compile(
    r"""
    align(ed)? | arcface | clean(ed)? | crop(s|ped)? | gr[ae]y | insightface | mask(ed)? | mtcnn | orig(inal)? | raw
    | retinaface | rgb | shuffled
    | benchmark | eval | full | gallery | mini | part | pairs? | probe | protocol | samples? | shards? | small | splits?
    | subset | test(ing|set|suite)? | tiny | train(ing|set)? | val(id|idation)?
    | bin | data(base|sets?)? | db | faces? | folders? | hf | idx | ima?ge?s? | jpe?g | kaggle | lists? | lmdb | lst
    | mdb | mxnet | pack(ed)? | parquet | png | public | rec(ordio)? | release | sets? | tar | tgz | wds
    | webdataset | zip | (fold|part|shard|split|v)? \d+ (x\d+)* (px|k|m)?
    """,
    re.VERBOSE,
)


def known_set(path: Path) -> KnownSet | None:
    """The published set that the name of a file or a folder refers to.

    A name refers to a set if it contains a name of the set and otherwise only words that copies of any set have: sizes,
    parts, formats (`faces_emore`, `lfw_112.zip`, `casia_webface_clean`). The longest name of a set is used. Any other
    word makes it another set (`lfw_ours`). If a name has only words of the second kind (`train.rec`, `images`), the
    name of the folder above it is examined in the same way. A name proves nothing about the content of the file.

    >>> known = known_set(Path("data/faces_emore/train.rec"))
    >>> known.name, known.terms
    ('MS1MV2 (InsightFace, MS1M-ArcFace)', 'withdrawn')
    >>> known_set(Path("lfw_ours/photos.zip")) is None
    True
    """
    path = path.absolute()
    for name in (path.name if path.is_dir() else path.stem, *(folder.name for folder in path.parents)):
        words = [word for word in re.split(r"[\W_]+", name.lower()) if word]
        if (known := _meant(words)) is not None:
            return known
        if not _of_a_copy(words):
            return None
    return None


def _meant(words: Sequence[str]) -> KnownSet | None:
    """The set with the longest name among consecutive words, if all other words are those of a copy."""
    for first, end in sorted(combinations(range(len(words) + 1), 2), key=lambda span: span[0] - span[1]):
        known = _BY_WORD.get("".join(words[first:end]))
        if known is not None and _of_a_copy([*words[:first], *words[end:]]):
            return known
    return None


def _of_a_copy(words: Sequence[str]) -> bool:
    """Whether all words are words that copies of any set have in their names."""
    return all(_OF_A_COPY.fullmatch(word) for word in words)
