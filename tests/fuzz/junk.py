"""Values that no reader expects, as the text in which JSON and YAML hold them; and what would run code, were it run."""

import pickle
import random

#: Made in the working folder by whatever of a hostile input is executed; its presence is a finding.
CANARY = "CANARY"

_DEEP = 2000  # more than Python follows; YAML reads it in quadratic time

#: JSON texts of every kind. Some are no JSON in the strict sense, but Python's reader takes them.
JSON_JUNK = (
    "null", "true", "false", "0", "-1", "1", "2", "3", "0.5", "-0.0", "1e-320", "1e308", "1e400", "-1e400", "NaN",
    "Infinity", "-Infinity", str(2**31), str(2**31 - 1), str(2**32), str(2**63), str(-(2**63)), str(2**64), "9" * 20,
    "9" * 400, "9" * 5000, "2000000000", "100000", "1e10", '""', '" "', '"0"', '"1e-3"', '"NaN"', '"true"', '"a\\nb"',
    '"a\\tb"', '"\\u0000"', '"\\u001b[31mred"', '"\\u001b]0;title\\u0007"', '"\\u202egnp.exe"', '"\\ud800"',
    '"\\u00e9\\u00e9"', '"' + "x" * 5000 + '"', '"../../../etc/passwd"', '"/"', '"/dev/zero"', '"/dev/null"', '"."',
    '"a/b"', '"con"', "[]", "{}", "[[]]", "[null]", "[{}]", '[""]', "[1, 2]", "[1, 2, 3, 4]", '["a", "a"]', '{"": 1}',
    '{"a": {"b": []}}', "[" + "1, " * 2000 + "1]", "[" * _DEEP + "]" * _DEEP, '{"a":' * 900 + "1" + "}" * 900,
    f'{{"class_path": "os.mkdir", "init_args": {{"path": "{CANARY}"}}}}',
    f'{{"class_path": "pathlib.Path", "init_args": {{"args": "{CANARY}"}}}}',
    f'{{"class_path": "subprocess.Popen", "init_args": {{"args": ["mkdir", "{CANARY}"]}}}}',
    '{"class_path": "verisphere.models.build.importlib.import_module", "init_args": {"name": "fuzz.canary_module"}}',
    '{"class_path": "verisphere.backbones.Backbone"}', '{"class_path": "verisphere"}', '{"class_path": ""}',
    '"os.mkdir"',
    '"verisphere.losses.ArcFace"', '"verisphere.backbones.Pixels"', '"verisphere.images.Photos"',
    '"verisphere.models.build.build_backbone"',
)  # fmt: skip

#: Only where a file is data and never names code that its reader may import: a recipe's classes are its author's own.
UNTRUSTED_JUNK = ('{"class_path": "fuzz.canary_module.Thing"}', '"fuzz.canary_module.Thing"')

#: YAML texts besides those.
YAML_JUNK = (
    f"!!python/object/apply:os.mkdir [{CANARY}]", f"!!python/object/new:os.mkdir [{CANARY}]",
    "!!python/name:os.system", "!!python/module:fuzz.canary_module", "!!binary aGk=", "!!set {a, b}",
    "!!timestamp 2001-01-01", "!unknown 3", "2001-01-01", "0o7", "0x1F", "1_000", "190:20:30", ".nan", ".inf",
    "-.inf", "~", "yes", "Off", "1e-3", "&a [*a]", "*nowhere", "{<<: 3}", "{? [a]: b}", "{[a]: b}", "|\n  text\n",
    "''", "'", '"', "[", "{", "- a", "%YAML 3.0",
)  # fmt: skip

#: Lines that grow when their aliases are followed: 9 levels of 9 are 400 million entries.
ALIASES = "".join(
    f"{name}: &{name} [{', '.join([before] * 9)}]\n"
    for name, before in zip("abcdefghi", ["1", *(f"*{name}" for name in "abcdefgh")], strict=True)
)

#: Bytes to be put into files of any kind.
BYTES_JUNK = (
    b"", b"\0", b"\0" * 64, b"\xff", b"\xff" * 8, b"\x80", b"\xfe\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b"\t",
    b",", b'"', b"'", b"\x1b[31m", b"\xe2\x80\xae", b"\xc3(", b"PK\x03\x04", b"\x93NUMPY", b"9" * 20, b"9" * 5000,
    b"x" * 5000, b"-1", b"nan", b"inf", b"-inf", b"1e400", b"../", b"%s%n", b"\x85", b"\xe2\x80\xa8", b"\x0b",
    b"\x1c",
)  # fmt: skip

#: Cells of tables, besides the bytes.
TEXT_JUNK = (
    "", " ", "0", "1", "-1", "2", "1.5", "nan", "NaN", "inf", "-inf", "1e400", "1e-400", "9" * 20, "9" * 400,
    "9" * 5000, "0x10", "1_0", "\u0663", "\u00b2", "+1", "true", "None", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07",
    "\u202egpj.exe", "\0", "x" * 5000, '"', '""', '"a,b"', '"a\nb"', ",", ",,,", "\t", "\t\t", "..", "../x.jpg",
    "/etc/passwd", "a.png", "C:\\x", "\ufeff", "\u2028", "\x85", "\r", "a b c", "#", "%s", "Person_1",
)  # fmt: skip

#: Whole numbers that sizes, counts and offsets in headers are replaced by.
NUMBERS = (
    0, 1, 2, 3, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**53,
    2**62, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip


class Hostile:
    """An object whose unpickling makes the canary."""

    def __reduce__(self) -> tuple:
        import os

        return os.mkdir, (CANARY,)


PICKLE = pickle.dumps(Hostile(), protocol=2)


def json_junk(chance: random.Random, trusted: bool = False) -> str:
    """The text of a value that was not expected."""
    return chance.choice(JSON_JUNK if trusted else JSON_JUNK + UNTRUSTED_JUNK)


def yaml_junk(chance: random.Random, trusted: bool = False) -> str:
    """As `json_junk`, in a YAML file."""
    return chance.choice(YAML_JUNK) if chance.random() < 0.3 else json_junk(chance, trusted)
