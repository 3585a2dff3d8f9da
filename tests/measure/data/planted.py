"""The faults that are planted, one in a set, and what `data verify` must say of each.

A further format that can be written has the faults that any format can have. Faults of its own are a `Plant` each, in
`PLANTS`, made by a function in `planting`.
"""

from measure.data.planting import (
    added,
    archive_with,
    changed_archive,
    contents,
    converted,
    cut,
    deep,
    digest_of_none,
    flip,
    folder_with,
    image,
    in_folder,
    in_list,
    in_zip,
    lines,
    other_bytes,
    outside,
    removed,
    renamed,
    set_field,
    states,
    swap,
    then,
    with_extra_image,
)

SINGLE = "the only image of the identity 'Dan'"
PLANTS = (
    *contents(),
    # labels
    in_folder("one image", lambda root: folder_with(root, {"Dan/1.png": image(40)}), "Dan/1.png", SINGLE),
    in_zip("one image", lambda root: archive_with(root, {"Dan/1.png": image(40)}), SINGLE, "Dan/1.png"),
    in_list("one image", with_extra_image(lines("faces/x.png,Dan")), "faces/x.png", SINGLE, "faces/x.png"),
    in_list(
        "a label out of range",
        with_extra_image(lines("faces/x.png,-7")),
        "faces/x.png",
        "the label -7 is out of range",
        "faces/x.png",
    ),
    in_folder(
        "a label out of range",
        lambda root: folder_with(root, {"-2/1.png": image(41)}),
        "-2/1.png",
        "the label -2 is out of range",
    ),
    # folders
    in_folder(
        "an image outside of a person's folder",
        lambda root: folder_with(root, {"x.png": image(42)}),
        "x.png",
        "is not Name/image",
        "faces",
    ),
    in_folder("an image too deep", then(deep), "Ben/more/1.png", "is not Name/image", "faces"),
    in_folder(
        "a person without images", then(lambda path: (path / "Dan").mkdir()), "Dan", "an empty folder", "faces/Dan"
    ),
    in_folder(
        "a link to nothing",
        then(lambda path: (path / "Ben/3.png").symlink_to("gone.png")),
        "Ben/3.png",
        "cannot be read",
    ),
    in_folder(
        "a link in a circle",
        then(lambda path: (path / "Ben/3.png").symlink_to("3.png")),
        "Ben/3.png",
        "cannot be read",
    ),
    in_folder(
        "changed since it was converted",
        converted("", other_bytes),
        "Ben/1.png",
        "but the manifest states",
        "out/Ben/1.png",
    ),
    in_folder(
        "removed since it was converted", converted("", removed), "Ben/1.png", "which is not there", "out/Ben/1.png", 1
    ),
    in_folder(
        "added since it was converted", converted("", added), "Ben/3.png", "not in manifest.json", "out/Ben/3.png"
    ),
    in_folder(
        "a manifest of another number",
        converted("", states("images", 9)),
        "",
        "it states 9 images, but there are 6",
        "manifest.json",
    ),
    in_folder(
        "a manifest of another format",
        converted("", states("pack", "tar")),
        "",
        "it is of a 'tar', and this is a folder",
        "manifest.json",
    ),
    in_folder(
        "a manifest that names a file outside",
        converted("", outside),
        "../faces/Ann/1.png",
        "outside its folder",
        "Ann/1.png",
    ),
    # archives
    in_zip("a changed byte", changed_archive(flip), "a wrong CRC"),
    in_zip("a wrong CRC", changed_archive(set_field(16, "<I", 7)), "a wrong CRC"),
    in_zip("a wrong magic", changed_archive(set_field(0, "<I", 7, of_entry=False)), "no archive entry at byte"),
    in_zip("a size that is too small", changed_archive(set_field(20, "<I", 9)), "9 of"),
    in_zip("a size beyond the end", changed_archive(set_field(20, "<I", 200_000_000)), " bytes"),
    in_zip(
        "a size that no image has",
        changed_archive(set_field(24, "<I", 400_000_000)),
        "more than the 256000000 allowed",
    ),
    in_zip("an offset past the end", changed_archive(set_field(42, "<I", 1 << 30)), "behind the end of the archive"),
    in_zip("swapped entries", changed_archive(swap), "the entry itself has the name 'Cem/1.png'", others=1),
    in_zip("an encrypted entry", changed_archive(set_field(8, "<H", 1)), "is encrypted"),
    in_zip("a method that is not read", changed_archive(set_field(10, "<H", 14)), "by method 14"),
    in_zip("damaged compression", changed_archive(set_field(10, "<H", 8)), "damaged archive entry"),
    in_zip("a symbolic link", changed_archive(set_field(38, "<I", 0o120777 << 16)), "is a symbolic link"),
    in_zip("a name that leads outside", renamed(b"../b1.png"), "unsafe name", "../b1.png"),
    in_zip("an absolute name", renamed(b"/en/1.png"), "unsafe name", "/en/1.png"),
    in_zip("a name with a backslash", renamed(b"Ben\\1.png"), "unsafe name", "Ben\\1.png"),
    in_zip("a name twice", renamed(b"Ann/1.png"), "a second entry of this name", "Ann/1.png"),
    in_zip("an image outside of a person's folder", renamed(b"Ben-1.png"), "is not Name/image", "Ben-1.png"),
    in_zip("cut short", cut, "not a zip archive", ""),
    in_zip(
        "changed since it was converted",
        converted(".zip", digest_of_none),
        "but the manifest states 000",
        "out.zip",
        file="out.zip",
    ),
    # lists
    in_list("an image that is not there", lines("faces/gone.png,Ann"), "faces/gone.png", "line 8: no file"),
    in_list("a line too short", lines("faces/Ann/1.png"), "line 8", "1 values where the header has 2 columns"),
    in_list(
        "an empty identity",
        with_extra_image(lines("faces/x.png,")),
        "faces/x.png",
        "line 8: identity '' has 0 characters",
    ),
    in_list(
        "an identity too long",
        with_extra_image(lines(f"faces/x.png,{'x' * 300}")),
        "faces/x.png",
        "has 300 characters",
    ),
    in_list("no image", lines("faces/notes.txt,Ann"), "faces/notes.txt", "is no image"),
    in_list(
        "an image twice",
        lines("faces/Ann/1.png,Ben"),
        "faces/Ann/1.png",
        "line 8: 'faces/Ann/1.png' is already on line 2",
    ),
    in_list(
        "no identity",
        with_extra_image(lines("faces/x.png", header=False)),
        "faces/x.png",
        "line 7: no identity after",
        "list.lst",
    ),
    in_list(
        "two images",
        with_extra_image(lines("faces/x.png faces/Ann/1.png", header=False)),
        "faces/x.png",
        "two images",
        "list.lst",
    ),
    in_list(
        "a line that is none",
        lines("what is this?", header=False),
        "line 7",
        "is not `image path<TAB>identity`",
        "list.lst",
    ),
)
