"""Two things of which one does not say how it was made are put together on trust, which is said."""

from dataclasses import replace

from verisphere.base.provenance import Origin, Preprocessing, check_same_origin

KNOWN = Origin("ab" * 32, False, "float32", "here")
RECORDED = replace(KNOWN, preprocessing=Preprocessing((112, 112), "RGB", "NCHW", 127.5, 127.5))


def test_it_is_said_once_where_one_side_does_not_say_how_it_was_made(caplog):
    trust = "that both were made in one way is taken on trust"
    for _ in range(2):
        check_same_origin("a.npz was", KNOWN, "untold.npz", None, "embed anew")
        check_same_origin("first.npz was", None, "b.npz", KNOWN, "embed anew")
        check_same_origin("b.npz was", replace(KNOWN, images="there"), "first.npz", None, "embed anew")
    assert caplog.messages == [
        f"untold.npz: nothing in it says how it was made, as a.npz was: {trust}",
        f"b.npz: nothing says how first.npz was made: {trust}",
    ]


def test_of_two_sides_that_say_the_same_or_both_nothing_is_said(caplog):
    check_same_origin("a.npz was", RECORDED, "b.npz", RECORDED, "embed anew")
    check_same_origin("rows were", None, "others", None, "embed anew")
    assert not caplog.messages


def test_whose_pixels_are_not_recorded_is_said_once_by_every_reader_of_two_things(caplog):
    for _ in range(2):
        check_same_origin("new.npz was", RECORDED, "old.npz", KNOWN, "embed anew")
        check_same_origin("old.npz was", KNOWN, "new.npz", RECORDED, "embed anew")
    assert [message.split(" was made")[0] for message in caplog.messages] == ["old.npz"]
    caplog.clear()
    check_same_origin("older.npz was", KNOWN, "newer.npz", RECORDED, "embed anew", said=True)
    assert not caplog.messages


def test_two_other_things_of_the_same_names_are_said_again(caplog):
    """From Python every gallery is called the gallery."""
    second = replace(RECORDED, model="cd" * 32)
    for ours in (RECORDED, second):
        check_same_origin("model was", ours, "the gallery", replace(ours, preprocessing=None), "embed anew")
        check_same_origin("this model was", ours, "the gallery", None, "embed anew")
    assert len(caplog.messages) == 4
