"""A service of several processes: one limit, one count, one gallery, and no process outlives the first."""

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")
pytest.importorskip("httpx", reason="httpx, which asks the service in tests, is not installed")

import httpx

import several_processes
from faults.verbs import environment
from tiny_service import FACES, OTHERS, again, gallery_at, photo
from verisphere.cli.serving import _door, _SharedDoor
from verisphere.ship.serve.metrics import Metrics

PATIENCE = 300.0  # seconds, of a machine that does other things


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Service:
    """A running `serve --workers 2`, its log and its processes."""

    def __init__(self, folder: Path, *options: str) -> None:
        gallery_at(folder / "door").store.close()
        self.log = folder / "log"
        call = [sys.executable, several_processes.__file__, "--default-allocator", "serve", folder / "door"]
        call += ["--model", "model", "--port", "0", "--workers", "2", *options]
        with self.log.open("w") as log:
            self.first = subprocess.Popen(call, env=environment(), stdout=log, stderr=log)
        until(self.address)
        until(lambda: len(self.others()) == 2)
        for process in self.others():
            self.by(process, lambda: until(self.answers))

    def address(self) -> str:
        assert self.first.poll() is None, self.log.read_text()
        found = re.search(r"http://[\d.:]+", self.log.read_text())
        return found[0] if found else ""

    def others(self) -> list[int]:
        children = Path(f"/proc/{self.first.pid}/task/{self.first.pid}/children").read_text().split()
        return [int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.address()}/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def by(self, process: int, ask: Callable[[], object]) -> object:
        """What one of the processes answers while the others stand still."""
        still = [other for other in self.others() if other != process]
        try:
            for other in still:
                os.kill(other, signal.SIGSTOP)
            return ask()
        finally:
            for other in still:
                os.kill(other, signal.SIGCONT)

    def ask(self, path: str, face=None, key: str = "", **data: str):
        files = None if face is None else {"photograph": ("p.png", photo(face))}
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        way = "POST" if face is not None else "GET"
        return httpx.request(way, self.address() + path, files=files, data=data, headers=headers, timeout=PATIENCE)


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Service]:
    service = Service(folder, *options)
    try:
        yield service
    finally:
        if service.first.poll() is None:
            service.first.send_signal(signal.SIGTERM)
            service.first.wait(PATIENCE)


@pytest.mark.slow
def test_two_processes_have_one_gallery_one_count_and_one_limit(tmp_path: Path):
    entries = [
        {"name": name, "role": "admin", "sha256": hashlib.sha256(name.encode()).hexdigest()} for name in ("boss", "few")
    ]
    (tmp_path / "keys.json").write_text(json.dumps({"format": "verisphere keys 1", "keys": entries}))
    with served(tmp_path, "--keys", str(tmp_path / "keys.json"), "--rate", "1e-3") as service:
        one, two = service.others()
        first = service.by(one, lambda: service.ask("/v1/card", key="few"))
        second = service.by(two, lambda: service.ask("/v1/card", key="few"))
        assert (first.status_code, second.status_code) == (200, 429)
        figures = service.by(one, lambda: service.ask("/metrics", key="boss")).text
        assert 'requests_total{path="/v1/card",status="200"} 1\n' in figures
        assert 'requests_total{path="/v1/card",status="429"} 1\n' in figures
        assert "verisphere_requests_now 1\n" in figures
    assert service.first.returncode == 128 + signal.SIGTERM


@pytest.mark.slow
def test_who_is_enrolled_by_one_process_is_found_by_another_and_a_killed_one_is_replaced(tmp_path: Path):
    with served(tmp_path) as service:
        one, two = service.others()
        service.by(one, lambda: service.ask("/v1/enrol", OTHERS[350], person="Zoe"))
        found = service.by(two, lambda: service.ask("/v1/identify", again(OTHERS[350:351], 7, 0.2)[0])).json()
        assert found["people"][0]["person"] == "Zoe"
        os.kill(one, signal.SIGKILL)
        until(lambda: one not in service.others() and len(service.others()) == 2)
        (third,) = set(service.others()) - {two}
        service.by(third, lambda: until(service.answers))
        assert service.by(third, lambda: service.ask("/v1/identify", FACES[0])).json()["verdict"] == "found"
        assert f"process {one} of the service has ended" in service.log.read_text()
        others = service.others()
        service.first.kill()
        service.first.wait(PATIENCE)
        until(lambda: not any(map(running, others)))


@pytest.mark.slow
def test_processes_that_cannot_start_end_the_service_in_lines_of_words(tmp_path: Path):
    with served(tmp_path) as service:
        (tmp_path / "door" / "gallery.db").rename(tmp_path / "gone.db")
        os.kill(service.others()[0], signal.SIGKILL)
        assert service.first.wait(PATIENCE) == 2
    text = service.log.read_text()
    assert "no gallery that `verisphere gallery create` made" in text
    assert "a process of the service could not start" in text.splitlines()[-1]
    assert "Traceback" not in text


def test_a_process_leaves_the_next_connections_of_a_burst_to_others(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with _SharedDoor(fileno=_door("127.0.0.1", 0).detach()) as door:
        for later, paused in ((0.0, 0), (0.0001, 1), (0.0001, 2), (1.0, 2)):
            now[0] += later
            with socket.create_connection(door.getsockname()), door.accept()[0] as taken:
                assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert len(pauses) == paused
        door.setblocking(False)
        with pytest.raises(BlockingIOError):
            door.accept()


def test_counts_of_two_processes_are_one_and_those_of_an_ended_one_are_over(tmp_path: Path, monkeypatch):
    one = Metrics(tmp_path / "counts")
    monkeypatch.setattr("os.getpid", lambda: 2**30)
    two = Metrics(tmp_path / "counts")
    two.began(5)
    monkeypatch.undo()
    one.began(1)
    assert (one.now, two.now) == (6, 6)
    one.ended(2**30)
    assert two.now == 1
    one.took("batch_faces", 3.0)
    two.took("batch_faces", 4.0)
    assert "verisphere_batch_faces_sum 7\nverisphere_batch_faces_count 2\n" in one.text({})
    passed = [metrics.passes("door", 1e-6, 2.0) for metrics in (one, two, one, two)]
    assert passed == [True, True, False, False]
    assert Metrics().now == 0


def test_a_rate_is_kept_over_time(monkeypatch):
    metrics, now = Metrics(), [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    passed = []
    for seconds in (0, 0, 0, 0.4, 0.2, 0, 50, 0, 0, 0):
        now[0] += seconds
        passed.append(metrics.passes("door", 2.0, 2.0))
    assert passed == [True, True, False, False, True, False, True, True, False, False]
