"""Synthetic faces as files."""

import io
import zipfile
from pathlib import Path

import torch
from PIL import Image

from verisphere.base.vocabulary import Progress, printable, quietly
from verisphere.files.disk import check_writable, write_whole
from verisphere.files.images_json import NAME, images_json
from verisphere.images.loader import batches
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces, contact_sheet
from verisphere.report.plots import save_image

BATCH = 64


def render_zip(faces: SyntheticFaces, path: Path, sheet: Path | None = None, progress: Progress = quietly) -> str:
    """Write faces as PNG into a zip archive, one folder a person."""
    if path.suffix.lower() != ".zip":
        raise ValueError(f"{path}: rendered faces are written into an archive that ends in .zip")
    if sheet is not None and sheet.suffix.lower() != ".png":
        raise ValueError(f"{sheet}: the contact sheet is a picture that ends in .png")
    for out in (path, sheet):
        if out is not None:
            check_writable(out)

    def write(partial: Path) -> None:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
            truth = ["name,identity,true_identity,domain"]
            order = torch.arange(len(faces))
            steps = -(-len(faces) // BATCH)
            for batch in progress(batches(faces, order, BATCH), "rendering", steps):
                for pixels, index in zip(batch.images, batch.indices.tolist(), strict=True):
                    person = faces.identities[index]
                    name = f"{person}/{faces.names[index].replace('/', '-')}"
                    truth.append(f"{name},{person},{faces.true_identities[index]},{faces.domains[index]}")
                    archive.writestr(zipfile.ZipInfo(name), _png(pixels))  # a fixed date: the same bytes each time
            archive.writestr(zipfile.ZipInfo("truth.csv"), "\n".join(truth) + "\n")
            archive.writestr(zipfile.ZipInfo(NAME), images_json(drawn=True, alignment=faces.source.alignment))

    write_whole(path, write)
    if sheet is not None:
        save_image(contact_sheet(faces, min(8, len(faces.people)), min(10, faces.images_each)), sheet)
    return f"{printable(str(path))}: {len(faces)} images of {len(set(faces.true_identities))} people"


def _png(pixels: torch.Tensor) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy()).save(buffer, "png", compress_level=1)
    return buffer.getvalue()
