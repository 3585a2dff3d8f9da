"""The service over HTTP: the decisions of the command line, keys and limits, and nothing that a caller may not know."""

import asyncio
import hashlib
import json
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from threading import Event
from weakref import ref

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("httpx", reason="httpx, which asks the service in tests, is not installed")

from tiny_service import FACES, FIND, MODEL, NAMES, OTHERS, SIDE, again, gallery_at, photo, strangers
from tiny_service import client as client_of
from verisphere.base.identity import names_taken
from verisphere.base.provenance import TrainingRecord
from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import Embeddings, ImageSource
from verisphere.cli.serving import _door, _sweep
from verisphere.cli.start import main
from verisphere.files.gate import Gate, Limit
from verisphere.ship.face_search import FindFaces
from verisphere.ship.gate import gate_of
from verisphere.ship.identify import identify
from verisphere.ship.living.enrolment import verify_claim
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.living.records import NewPhotographs
from verisphere.ship.serve.app import make_app
from verisphere.ship.serve.desk import Batches, Desk
from verisphere.ship.serve.guard import Keys, Limits, read_keys
from verisphere.ship.verify import verify

SECRETS = {"door": "key of the door", "desk": "key of the desk", "boss": "key of the boss"}


def key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[name]}"}


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    roles = zip(SECRETS, ("read", "enrol", "admin"), strict=True)
    entries = [
        {"name": name, "role": role, "sha256": hashlib.sha256(SECRETS[name].encode()).hexdigest()}
        for name, role in roles
    ]
    (tmp_path / "keys.json").write_text(json.dumps({"format": "verisphere keys 1", "keys": entries}))
    return read_keys(tmp_path / "keys.json")


@pytest.fixture
def door(tmp_path: Path) -> Path:
    gallery_at(tmp_path / "door").store.close()
    return tmp_path / "door"


MANY = Limits(rate=1000.0)


def client(door: Path, keys: Keys | None = None, limits: Limits = MANY, find: FindFaces = FIND, **settings):
    return client_of(Desk(LivingGallery(door), MODEL, find, limits, **settings), keys)


def sent(*faces: np.ndarray, names: tuple[str, ...] = ("photograph",)) -> dict:
    return {"files": {name: (f"{name}.png", photo(face)) for name, face in zip(names, faces, strict=True)}}


def two(left: np.ndarray, right: np.ndarray) -> dict:
    return sent(left, right, names=("left", "right"))


def failed(answer, status: int, code: str) -> str:
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert list(answer.json()) == ["error"]
    return answer.json()["error"]["message"]


def same_decision(served: float, passes: bool, wanted: float, threshold: float) -> None:
    assert served == pytest.approx(wanted, abs=1e-5)
    if abs(wanted - threshold) > 1e-5:
        assert passes == (wanted > threshold)


# --- decisions ---


def test_decides_as_the_command_line_does(tmp_path, door):
    """Many at once, so that faces of several requests go through the network together."""
    shares = np.linspace(0.05, 0.95, 12)
    probes = [again(FACES[number % 8][None], number, share)[0] for number, share in enumerate(shares)]
    with client(door) as service, ThreadPoolExecutor(8) as threads:
        verified = list(threads.map(lambda face: service.post("/v1/verify", **two(FACES[1], face)).json(), probes))
        claims = [{**sent(face), "data": {"person": NAMES[number % 8]}} for number, face in enumerate(probes)]
        claimed = list(threads.map(lambda claim: service.post("/v1/claim", **claim).json(), claims))
        found = list(threads.map(lambda face: service.post("/v1/identify", **sent(face)).json(), probes))
        figures = service.get("/metrics").text
    (tmp_path / "one.png").write_bytes(photo(FACES[1]))
    gallery, verdicts = LivingGallery(door), set()
    for number, face in enumerate(probes):
        (tmp_path / "probe.png").write_bytes(photo(face))
        wanted = verify(tmp_path / "one.png", tmp_path / "probe.png", MODEL, FIND)
        answer = verified[number]
        same_decision(answer["score"], answer["verdict"] == "same", wanted.score, wanted.threshold.threshold)
        assert (answer["verdict"] == "unsure") == wanted.unsure
        assert (answer["promise"], answer["misses"]) == (wanted.promise, wanted.misses)
        assert answer["unsure_from"] == wanted.threshold.frr.threshold
        with names_taken("merge"):
            claim = verify_claim(gallery, tmp_path / "probe.png", NAMES[number % 8].upper(), MODEL, FIND)
        assert (claim.person, claim.names_rule) == (NAMES[number % 8], "merge")
        answer = claimed[number]
        same_decision(answer["score"], answer["verdict"] == "same", claim.match.score, claim.threshold)
        assert (answer["promise"], answer["notes"]) == (claim.promise, list(claim.notes))
        assert answer["misses"] == (
            "how many enrolled people are missed is not recorded; known of the threshold for two photographs, "
            f"{wanted.threshold.threshold:.6g}, which is below this one: {wanted.misses}"
        )
        who = identify(tmp_path / "probe.png", door, MODEL, FIND)
        answer = found[number]
        near = [*who.matches, *([who.best] if who.best else [])]
        for served, match in zip(answer["people"], near, strict=False):
            assert served["person"] == match.name
            same_decision(served["score"], served["passes"], match.score, who.threshold.threshold)
        assert len(answer["people"]) == 5
        assert (answer["threshold"], answer["promise"]) == (who.threshold.threshold, who.promise)
        verdicts |= {answer["verdict"], claimed[number]["verdict"]}
    assert verdicts == {"found", "nobody", "same", "different"}
    batches, faces = (float(re.search(rf"batch_faces_{part} ([\d.]+)", figures)[1]) for part in ("count", "sum"))
    assert faces == 4 * 12
    assert batches <= faces
    assert "batch_searches_sum 12\n" in figures


def test_a_score_between_two_thresholds_is_unsure(door):
    pair = MODEL.thresholds[0]
    assert pair.frr.threshold < pair.threshold
    with client(door) as service:
        verdicts = {}
        for share in np.linspace(0, 1, 60):
            answer = service.post("/v1/verify", **two(FACES[0], again(FACES[:1], 5, share)[0])).json()
            verdicts.setdefault(answer["verdict"], []).append(answer["score"])
    assert set(verdicts) == {"same", "unsure", "different"}
    assert all(pair.frr.threshold <= score <= pair.threshold for score in verdicts["unsure"])


def test_requests_that_wait_form_a_batch():
    begun, free, sizes = Event(), Event(), []

    def embed(faces):
        sizes.append(len(faces))
        begun.set()
        free.wait(60)
        if any(face[0] < 0 for face in faces):
            raise ValueError("a face that cannot be embedded")
        return np.stack(faces) * 2

    async def ask():
        batches = Batches(embed, most=3)
        first = asyncio.ensure_future(batches(np.array([1.0])))
        while not begun.is_set():
            await asyncio.sleep(0)
        later = [asyncio.ensure_future(batches(np.array([number]))) for number in (2.0, 3.0, 4.0, 5.0, -1.0)]
        await asyncio.sleep(0)
        later[1].cancel()
        free.set()
        return await asyncio.gather(first, *later, return_exceptions=True)

    *rows, error = asyncio.run(ask())
    assert sizes == [1, 3, 1]
    assert [row[0] for row in (rows[0], rows[1], rows[3], rows[4])] == [2.0, 4.0, 8.0, 10.0]
    assert isinstance(rows[2], asyncio.CancelledError)
    assert isinstance(error, ValueError)


def test_photographs_of_requests_that_wait_are_looked_for_together(door):
    sizes = []
    desk = Desk(LivingGallery(door), MODEL, FIND, counted=lambda name, number: sizes.append((name, number)))

    async def ask():
        photographs = [await desk.photograph(photo(face)) for face in (*FACES[:3], OTHERS[360])]
        sizes.clear()
        return await asyncio.gather(
            *[desk.identify((photograph, place > 1)) for place, photograph in enumerate(photographs)]
        )

    decisions = asyncio.run(ask())
    assert sizes == [("batch_searches", 4)]
    assert [decision.verdict for decision in decisions] == ["found"] * 3 + ["nobody"]
    assert [decision.people[0].person for decision in decisions[:3]] == NAMES[:3]
    assert [len(decision.people) for decision in decisions] == [1, 1, 5, 5]


# --- changes ---


def test_enrols_finds_and_removes_a_person(door, keys):
    new = OTHERS[350]
    with client(door, keys) as service:
        person = {"person": "Zoe", "consent": "form 7", "expires": "2999-01-01"}
        first = service.post("/v1/enrol", **sent(new), data=person, headers=key("desk")).json()
        assert (first["verdict"], first["photographs"]) == ("enrolled", 1)
        assert "gallery of 9 people" in first["promise"]
        assert service.post("/v1/enrol", **sent(new), data=person, headers=key("desk")).json()["verdict"] == "known"
        found = service.post("/v1/identify", **sent(again(new[None], 7, 0.2)[0]), headers=key("door")).json()
        assert [one["person"] for one in found["people"]] == ["Zoe"]
        gone = service.post("/v1/remove", data={"person": "Zoe"}, headers=key("boss")).json()
        assert (gone["verdict"], gone["photographs"]) == ("removed", 1)
        failed(service.post("/v1/remove", data={"person": "Zoe"}, headers=key("boss")), 404, "unknown_person")
    store = LivingGallery(door).store
    audit = store.select("SELECT operator, action, photographs FROM audit WHERE operator IN ('desk', 'boss')")
    assert audit == [("desk", "enrol", 1), ("boss", "remove", 1)]
    assert "Zoe" not in str(store.select("SELECT * FROM audit"))


def test_an_enrolment_says_what_weakens_the_promise(door):
    terms = LivingGallery(door).promise.terms
    store = LivingGallery(door).store
    with store.writing():
        store.set_fact("terms", replace(terms, in_training=SharedWithTraining(3, 0, 360, 360, True)))
    with client(door) as service:
        done = service.post("/v1/enrol", **sent(OTHERS[350]), data={"person": "Zoe"}).json()
    known = "The model was trained on 3 of the 360 people (by name), so it promises nothing about new people."
    assert (done["verdict"], done["notes"][0]) == ("enrolled", known)


def test_no_photograph_is_stored_unless_it_is_asked_for(door, monkeypatch):
    def on_disk(*arguments):
        raise AssertionError("a photograph was written to a disk")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", on_disk)
    noise_face = OTHERS[351]
    with client(door) as service:
        for name, face, keep in (("Ann", OTHERS[350], False), ("Ben", noise_face, True)):
            files = {"photograph": ("p.png", photo(face) + bytes(3 << 20))}  # behind a PNG anything may stand
            done = service.post("/v1/enrol", files=files, data={"person": name, "keep_image": str(keep)})
            assert done.json()["verdict"] == "enrolled"
    images = dict(
        LivingGallery(door).store.select(
            "SELECT p.name, f.image FROM people p JOIN photographs f ON p.person = f.person WHERE p.name < 'C'"
        )
    )
    assert images["Ann"] is None
    assert images["Ben"] == photo(noise_face)


def test_a_consent_that_has_ended_enrols_nobody(door):
    with client(door) as service:
        data = {"person": "Newcomer", "expires": date.today().isoformat()}
        failed(service.post("/v1/enrol", **sent(OTHERS[350]), data=data), 422, "invalid")


def test_a_photograph_that_looks_like_somebody_else_is_refused(door):
    with client(door) as service:
        answer = service.post("/v1/enrol", **sent(OTHERS[350]), data={"person": "Newcomer"}).json()
        assert answer["verdict"] == "enrolled"
        again_as_another = service.post("/v1/enrol", **sent(OTHERS[350]), data={"person": "Second"}).json()
    assert again_as_another["verdict"] == "refused"
    assert again_as_another["reasons"] == ["the first of Second, and it is found as Newcomer (1.0000)."]


def test_a_service_stops_when_another_process_changes_the_model_of_its_gallery(door):
    with client(door) as service:
        assert service.post("/v1/identify", **sent(FACES[0])).json()["verdict"] == "found"
        store = LivingGallery(door).store
        with store.writing():
            store.set_fact("origin", replace(MODEL.origin(ImageSource("new", None)), model="1" * 64))
        for path, data in (("identify", {}), ("claim", {"person": NAMES[0]}), ("enrol", {"person": "New"})):
            failed(service.post(f"/v1/{path}", **sent(FACES[0]), data=data), 409, "other_model")


def test_a_gate_of_a_file_refuses(door, tmp_path):
    limit = {"measure": "brightness", "side": "least", "value": 255.0}
    gate = Gate("others", 10, 20, None, (Limit(**limit),), 0.0)
    gate.write_json(tmp_path / "gate.json")
    with client(door, gate=gate_of(tmp_path / "gate.json", MODEL, FIND)) as service:
        answer = service.post("/v1/enrol", **sent(OTHERS[350]), data={"person": "Newcomer"}).json()
    assert answer["verdict"] == "refused"
    assert "this gallery asks for at least 255" in answer["reasons"][0]


def test_the_margin_of_the_gate_holds_as_on_the_command_line(door, tmp_path):
    """A photograph that is nearer to another person by less than the margin is enrolled."""
    mixed = (0.3 * FACES[0] + 0.7 * FACES[1]).astype(np.uint8)
    for margin, verdict in ((0.0, "refused"), (2.0, "enrolled")):
        with client(door, margin=margin) as service:
            answer = service.post("/v1/enrol", **sent(mixed), data={"person": NAMES[0]}).json()
        assert answer["verdict"] == verdict


def test_counts_of_killed_services_are_removed_and_those_of_running_ones_are_not(tmp_path):
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    for name in (
        f"verisphere-serve-{ended.stdout.strip()}-x",
        f"verisphere-serve-{os.getpid()}-y",
        "verisphere-serve-z",
    ):
        (tmp_path / name / "counts").mkdir(parents=True)
    _sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"verisphere-serve-{os.getpid()}-y", "verisphere-serve-z"}


@pytest.mark.usefixtures("process_as_it_was")
def test_the_service_takes_gate_and_margin_from_one_file(door, tmp_path, monkeypatch):
    Gate("others", 10, 20, None, (), 0.75).write_json(tmp_path / "gate.json")
    monkeypatch.setattr("verisphere.cli.serving.model_and_faces", lambda *_, **__: (MODEL, FIND))
    desks = []
    monkeypatch.setattr("verisphere.ship.serve.app.make_app", lambda desk, keys, counts: desks.append(desk))
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: [door.close() for door in sockets])
    call = ["--default-allocator", "serve", str(door), "--model", "model", "--port", "0"]
    assert main([*call, "--gate", str(tmp_path / "gate.json")]) == 0
    assert desks[0].margin == 0.75


@pytest.mark.usefixtures("process_as_it_was")
def test_a_gate_of_a_file_brings_its_margin(door, tmp_path, monkeypatch):
    """By the margin a photograph may be nearer to another person, here and on the command line."""
    made = {}
    Gate("others", 10, 20, None, (), 2.0).write_json(tmp_path / "gate.json")
    monkeypatch.setattr("verisphere.cli.serving.model_and_faces", lambda *_, **__: (MODEL, FIND))
    monkeypatch.setattr("verisphere.ship.serve.app.make_app", lambda desk, keys, counts: made.setdefault("desk", desk))
    monkeypatch.setattr("uvicorn.Server.run", lambda _, sockets: sockets[0].close())
    asked = ["serve", str(door), "--model", "model", "--port", "0", "--aligned"]
    for gate, verdict in (([], "refused"), (["--gate", str(tmp_path / "gate.json")], "enrolled")):
        made.clear()
        assert main(["--default-allocator", *asked, *gate]) == 0
        with client_of(made["desk"]) as service:
            done = service.post("/v1/enrol", **sent(again(FACES[1:2], 9)[0]), data={"person": NAMES[0]}).json()
        assert done["verdict"] == verdict


@pytest.mark.usefixtures("process_as_it_was")
def test_the_first_of_several_processes_holds_neither_model_nor_gallery_and_hands_on_its_keys(
    door, keys, tmp_path, monkeypatch
):
    def made(desk: Desk) -> None:
        desks.append(ref(desk))
        made_so(desk)

    def keep_running(number, about, ended):
        seen.append((number, about[1], [desk() for desk in desks]))
        about[2].close()

    seen, desks, made_so = [], [], Desk.__post_init__
    monkeypatch.setattr(Desk, "__post_init__", made)
    monkeypatch.setattr("verisphere.cli.serving.model_and_faces", lambda *_, **__: (MODEL, FIND))
    monkeypatch.setattr("verisphere.cli.serving._keep_running", keep_running)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    call = ["serve", str(door), "--model", "model", "--port", "0", "--workers", "2"]
    assert main(["--default-allocator", *call, "--keys", str(tmp_path / "keys.json")]) == 0
    assert seen == [(2, keys, [None])]


def test_what_a_decision_rests_on_is_of_the_moment_of_its_search(door, monkeypatch):
    """Others may enrol between a search and what is said of the gallery, by which its notes would be another's."""
    desk, within, rests = Desk(LivingGallery(door), MODEL, FIND, MANY), [], Desk._rests

    def seen(asked: Desk, *about):
        within.append(asked.gallery.store._within)
        return rests(asked, *about)

    monkeypatch.setattr(Desk, "_rests", seen)
    with client_of(desk) as service:
        assert service.post("/v1/identify", **sent(FACES[0])).json()["verdict"] == "found"
        assert service.post("/v1/claim", **sent(FACES[0]), data={"person": NAMES[0]}).json()["verdict"] == "same"
    assert within == [True, True]


def test_the_gate_says_why_it_refuses(door):
    def gate(faces, rows):
        assert (len(faces), rows.shape) == (1, (1, SIDE * SIDE))
        return [("the face is turned away", "it is dark")]

    with client(door, gate=gate) as service:
        done = service.post("/v1/enrol", **sent(OTHERS[350]), data={"person": "Zoe"}).json()
    assert (done["verdict"], done["reasons"]) == ("refused", ["The face is turned away.", "It is dark."])
    assert LivingGallery(door).info().people == 8


def test_a_name_with_a_nul_is_refused_and_a_gallery_that_others_write_to_is_busy(door, monkeypatch):
    def busy(*_, **__):
        raise ValueError("postgresql://db/faces#door: others have been writing to this gallery for 60 s")

    with client(door) as service:
        for path in ("claim", "enrol", "remove"):
            failed(service.post(f"/v1/{path}", **sent(FACES[0]), data={"person": "A\0nn"}), 422, "invalid")
        failed(service.post("/v1/enrol", **sent(FACES[0]), data={"person": "Ann", "consent": "\0"}), 422, "invalid")
        monkeypatch.setattr(LivingGallery, "remove", busy)
        failed(service.post("/v1/remove", data={"person": NAMES[0]}), 503, "busy")


def test_an_enrolment_that_would_end_the_promise_is_refused_with_the_number_of_strangers(door):
    gallery = LivingGallery(door)
    gallery.store.change("DELETE FROM strangers WHERE stranger > 299")
    with client(door) as service:
        done = service.post("/v1/enrol", **sent(OTHERS[0]), data={"person": "stranger 0"})
    assert "needs 299 strangers" in failed(done, 409, "few_strangers")
    assert str(door) not in done.text


# --- who may do what ---


@pytest.mark.parametrize(
    ("path", "role"),
    [("verify", "door"), ("claim", "door"), ("identify", "door"), ("enrol", "desk"), ("remove", "boss")],
)
def test_a_key_does_what_its_role_allows_and_no_more(door, keys, path, role):
    allowed = [*SECRETS][[*SECRETS].index(role) :]
    request = {
        **sent(FACES[0], FACES[1], FACES[2], names=("photograph", "left", "right")),
        "data": {"person": NAMES[3]},
    }
    with client(door, keys) as service:
        failed(service.post(f"/v1/{path}", **request), 401, "unauthorized")
        failed(service.post(f"/v1/{path}", **request, headers={"Authorization": "Bearer no"}), 401, "unauthorized")
        failed(
            service.post(f"/v1/{path}", **request, headers={"Authorization": f"Basic {SECRETS['boss']}"}),
            401,
            "unauthorized",
        )
        for name in SECRETS:
            done = service.post(f"/v1/{path}", **request, headers=key(name))
            if name not in allowed:
                failed(done, 403, "forbidden")
        assert done.status_code == 200


def test_who_does_not_pass_is_named_to_those_alone_who_may_enrol(door, keys):
    stranger = sent(OTHERS[360])
    with client(door, keys) as service:
        answer = service.post("/v1/identify", **stranger, headers=key("door"))
        assert (answer.json()["verdict"], answer.json()["people"], answer.json()["score"]) == ("nobody", [], None)
        assert not any(name in answer.text for name in NAMES)
        near = service.post("/v1/identify", **stranger, headers=key("desk")).json()["people"]
        assert (len(near), {one["passes"] for one in near}) == (5, {False})
        claim = service.post("/v1/claim", **stranger, data={"person": "person 3"}, headers=key("door"))
        assert NAMES[3] not in claim.text
        failed(claim, 404, "unknown_person")
        spelled = service.post("/v1/enrol", **stranger, data={"person": "PERSON 3"}, headers=key("desk"))
        assert NAMES[3] not in spelled.text
        failed(spelled, 409, "name")


def test_without_keys_only_this_machine_is_answered(door):
    with client(door) as service:
        request = sent(FACES[0])
        assert service.post("/v1/identify", **request, headers={"Origin": "http://localhost"}).status_code == 200
        for headers in ({"Origin": "https://elsewhere.example"}, {"Host": "rebound.example"}, {"Origin": "null"}):
            failed(service.post("/v1/identify", **request, headers=headers), 403, "forbidden")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "verisphere keys 2"}, "format must be 'verisphere keys 1', got 'verisphere keys 2'"),
        ({"keys": []}, "keys must have a key"),
        ({"keys": [{"name": "a", "role": "root", "sha256": "0" * 64}]}, "must be 'read' or 'enrol' or 'admin'"),
        ({"keys": [{"name": "a", "role": "read", "sha256": "a key"}]}, "sha256 of 'a' must be 64 digits"),
        ({"keys": [{"name": name, "role": "read", "sha256": "0" * 64} for name in "ab"]}, "two keys have the same"),
    ],
)
def test_a_wrong_file_of_keys_is_refused(tmp_path, change, message):
    whole = {"format": "verisphere keys 1", "keys": [{"name": "a", "role": "read", "sha256": "0" * 64}], **change}
    (tmp_path / "keys.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=rf"keys\.json.*{message}"):
        read_keys(tmp_path / "keys.json")


# --- limits ---


def test_each_limit_has_its_answer(door, keys):
    limits = Limits(most_bytes=2000, most_pixels=200)
    with client(door, limits=limits) as service:
        failed(service.post("/v1/identify", files={"photograph": bytes(2001)}), 413, "too_large")
        failed(service.post("/v1/identify", files={"photograph": bytes(80_000)}), 413, "too_large")
    with client(door, limits=Limits(most_pixels=100)) as service:
        failed(service.post("/v1/identify", **sent(FACES[0])), 413, "too_large")
    with client(door, keys, Limits(rate=0.1)) as service:
        assert service.get("/v1/card", headers=key("door")).status_code == 200
        busy = service.get("/v1/card", headers=key("door"))
        failed(busy, 429, "rate")
        assert busy.headers["retry-after"] == "1"
        assert service.get("/v1/card", headers=key("desk")).status_code == 200
        assert service.get("/health").status_code == 200


def test_a_body_without_a_length_ends_at_the_limit(door):
    """Also a disconnected or slow sender ends: the body is read within the time of the answer."""

    async def ask(chunk: bytes, seconds: float) -> list[dict]:
        answers, read = [], 0

        async def receive():
            nonlocal read
            await asyncio.sleep(0 if chunk else 60)
            read += len(chunk)
            return {"type": "http.request", "body": chunk, "more_body": True}

        async def send(message):
            answers.append(message)

        desk = Desk(LivingGallery(door), MODEL, FIND, Limits(most_bytes=10_000, seconds=seconds))
        headers = [(b"host", b"localhost"), (b"content-type", b"multipart/form-data; boundary=x")]
        scope = {"type": "http", "path": "/v1/identify", "method": "POST", "headers": headers}
        await make_app(desk)(scope, receive, send)
        assert read <= 200_000
        return answers

    for chunk, seconds, status in ((bytes(9_000), 60.0, 413), (b"", 0.2, 503)):
        assert asyncio.run(ask(chunk, seconds))[0]["status"] == status


def test_more_requests_than_are_answered_at_once_and_slow_answers_are_refused(door):
    begun, free = Event(), Event()

    def slow(photographs, names):
        begun.set()
        free.wait(60)
        return FIND(photographs, names)

    with client(door, limits=Limits(concurrent=1, seconds=0.5), find=slow) as service, ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(service.post, "/v1/enrol", **sent(OTHERS[350]), data={"person": "Zoe"})
        assert begun.wait(60)
        busy = service.get("/v1/card")
        answer = waiting.result()
        free.set()
        failed(answer, 503, "timeout")
        if busy.status_code != 200:  # unless the slow answer was given up before
            failed(busy, 503, "busy")
    assert LivingGallery(door).info().people == 8


def test_wrong_limits_are_refused():
    with pytest.raises(ValueError, match="--most-bytes must be above 0, got 0"):
        Limits(most_bytes=0)


# --- what is said ---


def test_openapi_describes_every_path_and_the_page_needs_nothing_from_elsewhere(door):
    with client(door) as service:
        described = service.get("/openapi.json").json()
        page = service.get("/")
        parts = [service.get(f"/{name}") for name in re.findall(r'(?:href|src)="(\w+\.\w+)"', page.text)]
    for path, ways in described["paths"].items():
        for way in ways.values():
            assert way["summary"]
            assert path == "/health" or {"401", "429", "503"} <= set(way["responses"])
    assert {"/v1/verify", "/v1/claim", "/v1/identify", "/v1/enrol", "/v1/remove", "/v1/card"} < set(described["paths"])
    assert [part.status_code for part in parts] == [200] * 3
    assert "//" not in "".join(re.findall(r'(?:href|src|action)="([^"]*)"', page.text))
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"


def test_the_card_says_what_is_decided_by(door, keys):
    untold = Embeddings(MODEL.embed(again(FACES[:1], 7)), identities=NAMES[:1])  # names no model
    with client(door, keys) as service:
        card = service.get("/v1/card", headers=key("door")).json()
        LivingGallery(door).enrol(NewPhotographs.of(untold), accept_alarms=True)
        weak = service.get("/v1/card", headers=key("door")).json()["gallery"]
        figures = service.get("/metrics", headers=key("door")).text
        assert service.get("/metrics").status_code == 401
    assert card["people"] == 8
    assert card["role"] == "read"
    assert "at most 1 in 100 strangers are found in this gallery of 8 people" in card["gallery"]
    assert "; none of 8 probes of enrolled people were missed (at most " in card["gallery"]
    assert ("on trust" in card["gallery"], weak.endswith("that it was this one is taken on trust.")) == (False, True)
    assert card["pair"] == str(MODEL.thresholds[0])
    assert isinstance(card["limits"]["most_bytes"], int)  # a number of bytes, not 8388608.0
    assert 'verisphere_requests_total{path="/v1/card",status="200"} 2' in figures
    assert "verisphere_people 8" in figures
    for line in figures.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) .+|verisphere_\w+(\{[^{}]+\})? [\d.e+-]+", line), line


def test_a_gallery_that_was_carried_over_to_another_model_is_asked_nothing(door):
    with client(door) as service:
        assert service.get("/health").json() == {"status": "ok"}
        other = LivingGallery(door)
        with other.store.writing():
            other.store.set_fact("migrations", 1)
        other.store.close()
        answers = [
            service.post("/v1/identify", **sent(FACES[0])),
            service.post("/v1/claim", **sent(FACES[0]), data={"person": NAMES[0]}),
            service.post("/v1/enrol", **sent(OTHERS[350]), data={"person": "Newcomer"}),
            service.get("/health"),
            service.get("/v1/card"),
        ]
    assert ["start the service with that" in failed(answer, 503, "model") for answer in answers] == [True] * 5


def test_the_log_has_no_names_and_a_fault_no_trace(door, caplog):
    def broken(photographs, names):
        raise RuntimeError(f"{door}: {NAMES[0]} cannot be found")

    with caplog.at_level(logging.INFO), client(door, find=broken) as service:
        answer = service.post("/v1/claim", **sent(FACES[0]), data={"person": NAMES[0]})
        failed(answer, 500, "internal")
        failed(service.post("/v1/remove", data={"person": NAMES[1] + "x"}), 404, "unknown_person")
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("verisphere"))
    assert "RuntimeError in test_serve.py" in ours
    assert "/v1/claim 500" in ours
    for text in (answer.text, ours):
        assert not any(name in text for name in (*NAMES, str(door), "Traceback"))


def test_drawn_faces_are_refused_when_the_service_starts_and_when_they_come_later(door):
    bare = replace(MODEL, thresholds=())  # it has the promise of the gallery alone
    drawn = replace(bare, training=TrainingRecord(sources=(ImageSource("drawn", True),)))
    with pytest.raises(ValueError, match=r"trained on drawn faces, .*--accept-drawn-model"):
        Desk(LivingGallery(door), drawn, FIND)
    with client_of(Desk(LivingGallery(door), bare, FIND, MANY)) as service:
        assert service.post("/v1/identify", **sent(FACES[0])).json()["verdict"] == "found"
        known = strangers()
        known.embeddings = replace(known.embeddings, origin=replace(known.embeddings.origin, drawn=True))
        LivingGallery(door).promise.set_strangers(known)
        failed(service.post("/v1/identify", **sent(FACES[0])), 409, "drawn")
    with pytest.raises(ValueError, match=r"calibrated on drawn faces, .*--accept-drawn-model"):
        Desk(LivingGallery(door), bare, FIND)
    notes = Desk(LivingGallery(door), bare, FIND, accept_drawn=True)._rests(LivingGallery(door).threshold)["notes"]
    assert "calibrated on drawn faces" in notes[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0: others could reach the gallery, so name a file of keys by --keys"),
        (["--rate", "0"], "--rate must be above 0, got 0.0"),
        (["--keys", "none.json"], "none.json"),
    ],
)
@pytest.mark.usefixtures("process_as_it_was")
def test_a_service_that_cannot_start_says_why_in_one_line(capsys, door, arguments, message):
    assert main(["--default-allocator", "serve", str(door), "--model", "no-model", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("process_as_it_was")
def test_without_the_extra_it_says_how_to_install_it(capsys, door, monkeypatch):
    monkeypatch.setattr("verisphere.cli.serving.find_spec", lambda name: None if name == "uvicorn" else 1)
    assert main(["--default-allocator", "serve", str(door), "--model", "m"]) == 2
    assert "serving needs uvicorn, not installed here; install the extra serve" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_no_part_of_an_answer_waits_until_the_caller_has_confirmed_another(host):
    try:
        door = _door(host, 0)
    except ValueError as error:
        pytest.skip(f"this machine has no such address: {error}")
    with door, socket.create_connection(door.getsockname()[:2]), door.accept()[0] as taken:
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
