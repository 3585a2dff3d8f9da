"""What a training came to, from its log: which way loss and validation went, and the advice that follows."""

import pytest

from verisphere.report.outcome import Entry, training_outcome

FAR = "validation_tar_at_far_1e-3"


def losses(*values: float, share: float = 1.0) -> list[Entry]:
    return [{"step": 50 * place, "loss": value, "margin_share": share} for place, value in enumerate(values, start=1)]


def validated(*tars: float) -> list[Entry]:
    return [{"step": 100 * place, FAR: value} for place, value in enumerate(tars, start=1)]


FALLING, RISING, FLAT = losses(12.0, 8.0, 4.0, 2.0), losses(7.6, 9.0, 10.8, 11.1), losses(7.6, 7.5, 7.7, 7.5)


def text(entries: list[Entry]) -> str:
    return training_outcome(entries).text()


def test_a_loss_that_rose_says_what_to_lower():
    assert text(RISING) == (
        "the loss rose from 7.6 to 11.1 (means over the first 50 and the last 50 steps): lower the rate "
        "(optimizer.rate) or the margin of the loss"
    )


def test_a_loss_that_fell_needs_no_advice():
    assert text(FALLING) == "the loss fell from 12 to 2 (means over the first 50 and the last 50 steps)"


def test_a_loss_that_hardly_changed():
    said = text(FLAT).splitlines()
    assert said[0] == "the loss hardly changed from 7.6 to 7.5 (means over the first 50 and the last 50 steps)"
    assert said[1].startswith("advice: raise the rate (optimizer.rate) or train for more epochs")


def test_a_single_step_shows_no_course_and_earns_no_advice():
    said = text(losses(7.6))
    assert said == (
        "the loss was 7.6 at step 50; no other step was logged to compare it with (log_every sets how often)"
    )


def test_nothing_logged_says_nothing():
    assert text([]) == ""


def test_a_log_whose_losses_are_all_null_says_so():
    nulls = [{"step": 3, "loss": None}, {"step": 6, "loss": None}]
    told = "no loss can be given: it is null in every entry of the log that has one (2)"
    assert text(nulls) == told
    assert text([*nulls, *validated(0.31)]).splitlines()[0] == told


def test_one_noisy_step_at_the_end_does_not_mislead():
    """Of single steps half are averaged at each end: 12, 11, 10, 8 and 4, 2, 2, 14."""
    entries = [{"step": step, "loss": loss} for step, loss in enumerate((12, 11, 10, 8, 6, 4, 2, 2, 14), start=1)]
    course = training_outcome(entries).loss
    assert course is not None
    assert (course.first, course.last, course.trend) == (10.25, 5.5, "fell")
    assert (course.first_steps, course.last_steps) == (4, 4)
    assert text(entries[:2]) == "the loss fell from 12 to 11 (the first and the last step alone)"


def test_an_entry_counts_by_the_steps_that_it_covers():
    """The last one covers a single step of 151, and is averaged with the fifty before it."""
    entries = [
        {"step": step, "loss": loss} for step, loss in ((10, 9.0), (50, 8.0), (100, 7.0), (150, 5.0), (151, 56.0))
    ]
    course = training_outcome(entries).loss
    assert course is not None
    assert (course.first, course.last, course.trend) == (9.0, 6.0, "fell")
    assert course.text() == "the loss fell from 9 to 6 (means over the first 10 and the last 51 steps)"


def test_the_beginning_is_ten_steps_and_the_end_a_tenth_of_all():
    course = training_outcome(losses(*range(100, 0, -1))).loss
    assert course is not None
    assert (course.first, course.last) == (100.0, 5.5)


def test_while_the_margin_grows_a_loss_may_rise_and_is_not_compared():
    """Entry 4 is the first at the whole margin, but a mean that began before it was reached."""
    growing = [{**one, "margin_share": share} for one, share in zip(
        losses(2, 4, 8, 10, 9, 7, 6), (0.2, 0.5, 0.8, 1.0, 1.0, 1.0, 1.0), strict=True)]  # fmt: skip
    assert text(growing) == (
        "the loss fell since the margin reached its full size, from 9 to 6 (means over the first 50 and the last 50 of "
        "these steps)"
    )
    assert text(growing[:4]) == (
        "the loss went from 2 to 10 while the margin grew to its full size, which raises it by itself; a shorter "
        "schedule.margin_warmup (or more epochs) would show a trend"
    )
    assert "from 2 to 8 while the margin grew to 80 % of its full size, which" in text(growing[:3])


def test_validation_that_improved():
    assert text([*FALLING, *validated(0.31, 0.42, 0.52)]).splitlines() == [
        "the loss fell from 12 to 2 (means over the first 50 and the last 50 steps)",
        "TAR in validation at FAR 1e-3 improved, from 0.3100 at step 100 to 0.5200 at step 300",
    ]


def test_validation_that_got_worse_names_the_best_step():
    assert text([*FALLING, *validated(0.31, 0.42, 0.25)]).splitlines()[1:] == [
        "TAR in validation at FAR 1e-3 got worse, from 0.3100 at step 100 to 0.2500 at step 300; the best was 0.4200 "
        "at step 200",
        "advice: train for fewer epochs (validation was best at step 200), on more people, or with stronger "
        "augmentation",
    ]


def test_validation_that_passed_its_best_improved_and_still_earns_advice():
    said = text([*FALLING, *validated(0.31, 0.62, 0.52)])
    assert "improved, from 0.3100 at step 100 to 0.5200 at step 300; the best was 0.6200 at step 200" in said
    assert "advice: train for fewer epochs (validation was best at step 200)" in said


def test_validation_that_did_not_improve():
    said = text([*FALLING, *validated(0.31, 0.311)])
    assert "did not improve, from 0.3100 at step 100 to 0.3110 at step 200" in said
    assert "advice: what was learned holds only for the people trained on" in said
    assert "advice" not in text([*FALLING, *validated(0.998, 0.999)])  # as good as it can be from the beginning


def test_validation_at_the_end_alone():
    assert text([*FALLING, *validated(0.31)]).splitlines()[1:] == [
        "TAR in validation at FAR 1e-3 was 0.3100 at step 100, measured once (validate_every sets how often)"
    ]


def test_a_rising_loss_beside_better_validation_is_not_called_too_high_a_rate():
    said = text([*RISING, *validated(0.31, 0.52)])
    assert (
        "rose from 7.6 to 11.1 (means over the first 50 and the last 50 steps): validation improved all the same"
        in said
    )
    assert "lower the rate" not in said


@pytest.mark.parametrize("entries", [FLAT, RISING])
def test_each_target_far_has_a_line(entries: list[Entry]):
    both = [{**one, "validation_tar_at_far_1e-4": 0.1 * place} for place, one in enumerate(validated(0.3, 0.2))]
    lines = [line for line in text([*entries, *both]).splitlines() if line.startswith("TAR")]
    assert [line.split()[5] for line in lines] == ["1e-3", "1e-4"]
    assert "got worse" in lines[0]
    assert "improved" in lines[1]
