"""The files of IJB-B and IJB-C in the layouts of InsightFace's evaluation kit, one kind of file per module."""

from dataclasses import dataclass
from pathlib import Path

from verisphere.base.words import check_titles


@dataclass(frozen=True)
class IjbFiles:
    """The files of one evaluation of IJB-B or IJB-C; the names are those of the kit's IJB-C.

    Attributes:
        meta: `ijbc_face_tid_mid.txt`: image, template and medium (photo or video) of each face.
        pairs: `ijbc_template_pair_label.txt`: pairs of templates; None for 1:N alone.
        scores: `ijbc_name_5pts_score.txt`: five points and a detector score of each face; None weighs faces alike.
        galleries: `ijbc_1N_gallery_G1.csv` and `_G2.csv`: template and person of each enrolled template.
        probes: `ijbc_1N_probe_mixed.csv`: template and person of each probe; present if there are galleries.
        covariates: a CSV with a group of each template or person.
    """

    meta: Path
    pairs: Path | None
    scores: Path | None = None
    galleries: tuple[Path, ...] = ()
    probes: Path | None = None
    covariates: Path | None = None

    def __post_init__(self) -> None:
        if bool(self.galleries) != (self.probes is not None):
            raise ValueError("--gallery and --probes make 1:N together: give both or neither")
        check_titles("galleries", [gallery.stem for gallery in self.galleries])
        if self.pairs is None and not self.galleries:
            raise ValueError(
                "there is nothing to evaluate: give --pairs (1:1), or --gallery and --probes (1:N), or all"
            )
        if self.pairs is None and self.covariates is not None:
            raise ValueError("--covariates groups the pairs of --pairs, which are not given")

    @property
    def all(self) -> tuple[Path, ...]:
        """The files that are given."""
        paths = (self.meta, self.pairs, self.scores, *self.galleries, self.probes, self.covariates)
        return tuple(path for path in paths if path is not None)
