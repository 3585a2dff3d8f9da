"""Markup is escaped once, and rates are written so that a reader takes them as meant."""

import pytest

from verisphere.report.html import Markup, joined, table, tag, unbroken
from verisphere.report.tables import percent, rate_text


@pytest.mark.parametrize(
    ("rate", "words"), [(0.9134, "91.3"), (1.0, "100.0"), (0.0, "0.0"), (0.9996, "99.960"), (0.00042, "0.042")]
)
def test_percentages(rate: float, words: str):
    assert percent(rate) == f"{words}\N{NO-BREAK SPACE}%"


@pytest.mark.parametrize(
    ("rate", "text"), [(0.0, "0"), (1e-6, "1.00e-6"), (0.00999, "9.99e-3"), (0.25, "0.25"), (1e-12, "1.00e-12")]
)
def test_small_rates(rate: float, text: str):
    assert rate_text(rate) == text


def test_markup_is_escaped_once():
    inner = tag("b", "a & b")
    assert joined("<", inner, Markup("<br>")) == "&lt;<b>a &amp; b</b><br>"
    assert tag("img", alt='"x" <y>', src=None) == '<img alt="&quot;x&quot; &lt;y&gt;">'
    assert "<td>&lt;1</td>" in table("caption", ["a", "b"], [["x", "<1"]])


def test_a_power_of_ten_is_not_broken_at_its_dash():
    whole = '<span class="nowrap">{}</span>'.format
    assert joined("at 1e-3, 4.56e-5.") == f"at {whole('1e-3')}, {whole('4.56e-5')}."
    assert tag("p", "FAR 1e-3") == f"<p>FAR {whole('1e-3')}</p>"
    assert joined("1 in 40, 12 %, 12.2 %") == f"{whole('1 in 40')}, {whole('12 %')}, {whole('12.2 %')}"
    assert unbroken("1 in 2,500 to 40, 12.2 %") == "1\xa0in\xa02,500 to 40, 12.2\xa0%"
    for text in ("a1e-3", "1e-3b", "1e-3-4", "e-3"):
        assert joined(text) == text
    assert tag("title", "1e-3 & more") == "<title>1e-3 &amp; more</title>"
    assert tag("pre", "rate: 1e-3") == "<pre>rate: 1e-3</pre>"
    assert tag("p", aria_label="1e-3") == '<p aria-label="1e-3"></p>'
