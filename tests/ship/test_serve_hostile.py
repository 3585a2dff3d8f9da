"""Requests that mean harm: none gets a trace, a path, a name or a picture, changes the gallery, or ends the service."""

import hashlib
import json
import random
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("httpx", reason="httpx, which asks the service in tests, is not installed")

from tiny_service import FIND, KEPT, MODEL, NAMES, OTHERS, client, gallery_at, photo
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.serve.desk import Desk
from verisphere.ship.serve.guard import Limits, read_keys

KEY = "the key of a reader"
PATHS = ("/v1/verify", "/v1/claim", "/v1/identify", "/v1/enrol", "/v1/remove", "/v1/card", "/metrics", "/health", "/",
         "/openapi.json", "/v1/../gallery.db", "/%2e%2e/gallery.db", "//v1/enrol", "/v1/enrol/", "/docs", "/v1/ENROL",
         "/page.js/../../keys.py", "/%00", "/v1/people/Person%203")  # fmt: skip
METHODS = ("POST",) * 12 + ("GET", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "X")
WORDS = ("Person 3", "PERSON 3", "Person 3 ", "' OR 1=1 --", "x\x00y", "\u202e3 nosreP", "a" * 5000, "",
         "%s%n", "../../etc/passwd", "{{7*7}}",
         "nan", "-1", "\udcff", "2020-13-45", "<script>alert(1)</script>", "unknown", "None")  # fmt: skip
SIGNATURES = (b"\x89PNG", b64encode(b"\x89PNG\r\n\x1a\n")[:10])
#: The bytes of the kept crops, of their files behind the header and of their pixels; any 47 in a row have one of these.
PARTS = tuple(
    whole[place : place + 24]
    for face in KEPT
    for whole in (photo(face)[41:], face.tobytes())
    for place in range(0, len(whole) - 23, 24)
)
KINDS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "PPM")


def content(draw: random.Random) -> bytes:
    """A photograph of a stranger, or what is left of one."""
    data = bytearray(photo(OTHERS[300 + draw.randrange(100)], draw.choice(KINDS)))
    for _ in range(draw.choice((0, 0, 1, 3, 30))):
        data[draw.randrange(len(data))] = draw.randrange(256)
    if draw.random() < 0.3:
        del data[draw.randrange(len(data)) :]
    if draw.random() < 0.05:  # a header that states 2 ** 31 pixels a side
        data[16:24] = b"\x7f\xff\xff\xff" * 2
    return bytes(data) if draw.random() < 0.9 else draw.randbytes(draw.randrange(3000))


def body(draw: random.Random) -> tuple[bytes, str]:
    """A form, mostly broken in one place, and what it is said to be."""
    edge = draw.choice((b"edge", b"-" * 70, b"\xff"))
    parts = []
    for _ in range(draw.choice((0, 1, 2, 2, 3, 200))):
        name = draw.choice((b"photograph", b"left", b"right", b"person", b"expires", b"keep_image", b"consent", b""))
        file = name in (b"photograph", b"left", b"right") or draw.random() < 0.1
        value = content(draw) if file else draw.choice(WORDS).encode("utf-8", "surrogateescape")
        kind = b'; filename="' + draw.choice((b"a.jpg", b"../../x", b"\x00", b'"')) + b'"' if file else b""
        parts.append(
            b"--" + edge + b'\r\nContent-Disposition: form-data; name="' + name + b'"' + kind + b"\r\n\r\n" + value
        )
    whole = b"\r\n".join(parts) + b"\r\n--" + edge + b"--\r\n"
    if draw.random() < 0.2:
        whole = whole[: draw.randrange(len(whole))]
    kinds = (f"multipart/form-data; boundary={edge.decode('latin-1')}",) * 6
    others = ("multipart/form-data", "application/json", "application/x-www-form-urlencoded", "text/xml", "\xff")
    return whole, draw.choice(kinds + others)


def attack(service, seed: int, requests: int) -> dict[int, int]:
    """Sends so many requests, and counts their answers by status."""
    draw, counts = random.Random(seed), dict[int, int]()
    keys = (f"Bearer {KEY}",) * 20 + ("Bearer x", "Basic eDp4", "", "Bearer " + "x" * 9000, "Bearer \xff", "Bearer")
    for number in range(requests):
        data, kind = body(draw)
        headers = {"Authorization": draw.choice(keys).encode("latin-1"), "Content-Type": kind.encode("latin-1")}
        if draw.random() < 0.1:
            headers["Content-Length"] = draw.choice((b"0", b"-1", b"99999999999999999999999", b"x"))
        path = draw.choice(PATHS[:3] * 6 + PATHS)
        answer = service.request(draw.choice(METHODS), path, content=data, headers=headers)
        status, text = answer.status_code, answer.content.decode("utf-8", "replace")
        counts[status] = counts.get(status, 0) + 1
        told = (seed, number, path, status, text[:500])
        assert status in (200, 400, 401, 403, 404, 405, 413, 422), told
        if status != 200 and answer.request.method != "HEAD":
            assert list(json.loads(text)) == ["error"], told
            assert set(json.loads(text)["error"]) == {"code", "message"}, told
        if path not in ("/", "/openapi.json"):
            for leak in (*NAMES, "Traceback", "site-packages", ".py", "gallery.db", "object at 0x", "door"):
                assert leak not in text, (leak, *told)
        assert leaked(answer.content) == [], told
    return counts


def leaked(answer: bytes) -> list[bytes]:
    """What of a kept picture stands in an answer: the signature of PNG, as bytes or in base64, or other bytes of it."""
    forms = [answer]
    with suppress(ValueError):
        forms.append(letters(json.loads(answer)).encode("latin-1", "replace"))  # of bytes that were taken for letters
    return [part for part in (*SIGNATURES, *PARTS) if any(part in form for form in forms)]


def letters(value: object) -> str:
    """All texts of a JSON document in a row."""
    if isinstance(value, (dict, list)):
        return "".join(map(letters, value.values() if isinstance(value, dict) else value))
    return str(value)


@pytest.mark.parametrize("start", [0, 33, 60, 200])
def test_a_picture_in_an_answer_is_seen(start):
    crop = photo(KEPT[3])
    assert leaked(b'{"people": [' + crop[start : start + 60])
    assert leaked(KEPT[3].tobytes()[start : start + 60])
    assert leaked(b64encode(crop))
    assert leaked(json.dumps({"error": {"message": crop[start : start + 60].decode("latin-1")}}).encode())
    assert not leaked(photo(OTHERS[3])[8:])


@pytest.mark.filterwarnings("ignore:.*SpooledTemporaryFile")  # that a form which is cut short leaves open, in memory
@pytest.mark.parametrize("requests", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_hostile_requests_get_no_trace_and_nothing_of_others(tmp_path: Path, requests):
    gallery_at(tmp_path / "door").store.close()
    entry = {"name": "reader", "role": "read", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}
    (tmp_path / "keys.json").write_text(json.dumps({"format": "verisphere keys 1", "keys": [entry]}))
    gallery = LivingGallery(tmp_path / "door")
    before, held = gallery.info(), (tmp_path / "door" / "gallery.db").read_bytes()
    assert [photo(face) in held for face in KEPT] == [True] * len(KEPT)
    limits = Limits(rate=1e9, most_pixels=10_000, most_bytes=20_000)
    with client(Desk(gallery, MODEL, FIND, limits), read_keys(tmp_path / "keys.json")) as service:
        counts = attack(service, 16, requests)
        probe = {"photograph": photo(OTHERS[360])}
        done = service.post("/v1/identify", files=probe, headers={"Authorization": f"Bearer {KEY}"})
        assert done.json()["verdict"] == "nobody"  # it still answers
    assert LivingGallery(tmp_path / "door").info() == before
    assert {200, 401, 403, 404, 405, 422} <= set(counts)
    assert np.isclose(sum(counts.values()), requests)
