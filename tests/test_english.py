"""Docstrings, comments and messages are plain English: no fragments in sections, and no words with a plainer one."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[1] / "src" / "verisphere").rglob("*.py"))
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields):")
#: An entry such as `labels: class of each row.`: the names or types, and the text.
ENTRY = re.compile(r"([\w*.]+(?:, [\w*.]+)*): (.*)", re.S)
#: A text that says nothing without the name before it: a preposition, a pronoun, or one word that is no code.
FRAGMENT = re.compile(
    r"(of|as|from|by|in|with|under|that of|those|whose|which of|none of|all of|it|they|them|its|their)\b"
    r"|(where|what) (it|they|this|that|these)\b|(?!`)\S+$",
    re.I,
)
#: Words with a plainer one, and that one.
GLOSSARY = {
    r"\btold\b": "reported, given",
    r"\bparted\b": "separated, destroyed",
    r"\b(go|goes|went|going) on (with|at|from|where)\b": "continue",
    r"\b(is|are|was|were) left out\b|\bleaves? \S+ out\b|\bleave out\b": "exclude, omit",
    r"\bwhoever\b": "the caller, the user",
    r"\bone's own\b": "custom, your own",
    r"\bis none for\b": "cannot be used",
    r"\bfor want of\b": "because there is no",
    r"\bthe same of\b": "the quantity itself",
    r"\bat hand\b": "available",
    r"\btells? \w+ apart\b": "distinguish",
    r"\bwhole or not at all\b": "completely or not at all",
}


def without_code(text: str) -> str:
    """The text with code in backquotes replaced by `x`."""
    return re.sub(r"`[^`]+`", "`x`", text)


def docstrings(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """First line and text of each docstring, without code."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, without_code(text)


def other_texts(source: str, nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Line and text of each comment, and of each string constant with a blank that is no docstring: a message."""
    texts = dict(docstrings(nodes))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], without_code(token.string)
    for node in nodes:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
        if is_text and node.lineno not in texts:
            yield node.lineno, without_code(node.value)


def entries(text: str) -> Iterator[tuple[int, str]]:
    """Line, counted from the docstring's first, and text of each entry of a section, without its name."""
    lines, inside = text.split("\n"), False
    for place, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        inside = bool(SECTION.fullmatch(line)) or (inside and (indent > 0 or not line))
        if inside and indent == 4:
            rest = next((at for at in range(place + 1, len(lines)) if not lines[at].startswith(" " * 8)), len(lines))
            if entry := ENTRY.fullmatch(" ".join(part.strip() for part in lines[place:rest])):
                yield place, entry[2]


def faults(source: str) -> list[str]:
    """Line and fault of each fragment, and of each word of the glossary."""
    found, nodes = [], list(ast.walk(ast.parse(source)))
    for first, text in docstrings(nodes):
        found += [f"{first + at}: fragment: {entry}" for at, entry in entries(text) if FRAGMENT.match(entry)]
        prose = re.sub(r"^    [\w*.]+(, [\w*.]+)*:", "    x:", text, flags=re.M)  # the name of an argument is no word
        found += misused(first, prose)
    return found + [fault for first, text in other_texts(source, nodes) for fault in misused(first, text)]


def misused(first: int, text: str) -> Iterator[str]:
    """Line, counted from `first`, and fault of each word of the glossary."""
    for word, plain in GLOSSARY.items():
        for match in re.finditer(word, text, re.I):
            yield f"{first + text[: match.start()].count(chr(10))}: {match[0]!r}: write {plain}"


def test_docstrings_comments_and_messages_are_plain_english():
    found = [f"{path}:{fault}" for path in SOURCES for fault in faults(path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("entry", ["labels: of them.", "centers: as stored.", "ValueError: it is wrong.", "rows: all."])
def test_fragments_are_found(entry):
    assert faults(f'"""One.\n\nArgs:\n    {entry}\n"""')


def test_sentences_and_code_are_not_fragments():
    text = "One.\n\nArgs:\n    kind: `sgd` or `adamw`.\n    rows: the rows,\n        of all ranks.\n    told: a number."
    assert not faults(f'"""{text}\n"""')


def test_words_of_the_glossary_are_found():
    assert len(faults('"""Told before the others; those are left out."""')) == 2


@pytest.mark.parametrize("code", ["x = 1  # the images at hand", 'f"{x} ended for want of memory"', "x = 'is told'"])
def test_words_are_found_in_comments_and_messages(code):
    assert len(faults(code)) == 1


def test_names_and_code_in_messages_are_not_words():
    assert not faults("told = 'told'  # `told` is a name\nf'{told}: set `told` to 1'")


def test_docs_are_plain_english():
    root = Path(__file__).parents[1]
    pages = [path for path in (root / "docs").rglob("*.md") if root / "docs" / "reference" not in path.parents]
    found = []
    for page in [*pages, *(root / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG"))]:
        prose = re.sub(r"^ *```.*?^ *```", lambda code: "\n" * code[0].count("\n"), page.read_text(), flags=re.S | re.M)
        found += [f"{page}:{fault}" for fault in misused(1, without_code(prose))]
    assert not found, "\n".join(found)
