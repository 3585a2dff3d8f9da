"""The files of a cleaning in its folder."""

from pathlib import Path

from verisphere.clean.cleaning import Cleaning
from verisphere.clean.page import write_page
from verisphere.images.faces import Faces


def write_result(cleaning: Cleaning, faces: Faces | None, folder: Path, title: str) -> str:
    """Write all files of a result; returns an empty text, since `on_first_rank` needs a result.

    Args:
        cleaning: the result.
        faces: the images, for the pictures of a page; None if they are not available.
        folder: the folder.
        title: heading of a page.
    """
    write_page(cleaning, faces, folder, title)  # first, since the page is refused if the images have other names
    cleaning.write(folder)
    return ""
