"""A process that saves something again and again in forked copies of itself, kills those, and reads what they left.

`python -m faults.killing SAVER FOLDER KILLS` prints a line for each kill: the moment, and `old`, `new`, or the fault. A
moment is a number of steps that Python makes on files (a name opened, made, renamed, removed or synchronised); before
the next one the copy kills itself by SIGKILL. These moments are spread evenly over the save. Every second kill comes
from outside, at a random time of saves in a row, and so also falls inside of single writes.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.files.work import SealedFile
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint, save_checkpoint

STEPS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")
OLD, NEW = 1, 2


@dataclass(frozen=True)
class Saver:
    """Something that is saved.

    Attributes:
        save: writes version 1 or 2 into a folder.
        read: which version is there; 0 where there is none; raises where there is a half of one.
        first: there is nothing before: the save must not find an older version.
    """

    save: Callable[[Path, int], None]
    read: Callable[[Path], int]
    first: bool = False


# --- what is saved ----------------------------------------------------------------------------------------------------


def _save_embeddings(folder: Path, version: int) -> None:
    rows = np.full((400, 64), float(version), np.float32)
    names = np.array([f"{row}.png" for row in range(400)])
    write_embeddings(folder / "set.npz", Embeddings(rows, names, np.array([f"{row // 2}" for row in range(400)])))


def _read_embeddings(folder: Path) -> int:
    rows = read_embeddings(folder / "set.npz").embeddings
    assert rows.shape == (400, 64)
    assert len(np.unique(rows)) == 1
    return int(rows[0, 0])


def _save_checkpoint(folder: Path, version: int) -> None:
    # the step of a new version is one that no earlier, killed save had: as in a training that goes on
    step = version if version == OLD else 1 + max(int(path.name[5:]) for path in list_checkpoints(folder))
    parts = {part: {"rows": torch.full((20_000,), float(version))} for part in ("backbone", "head", "optimizer")}
    save_checkpoint(folder, step, parts, {"version": version})


def _read_checkpoint(folder: Path) -> int:
    found = 0
    for path in list_checkpoints(folder):  # each is whole, not the newest alone
        checkpoint = read_checkpoint(path)
        found = checkpoint.state["version"]
        for part in ("backbone", "head", "optimizer"):
            (rows,) = checkpoint.tensors(part).values()
            assert (rows == found).all()
            assert len(rows) == 20_000
    return int(found)


def _save_calibration(folder: Path, version: int) -> None:
    from verisphere.ship.calibrate import calibrate

    _calibrated(folder, calibrate, version).write_json(folder / "calibration.json")


def _calibrated(folder: Path, calibrate: Callable, version: int):  # type: ignore[no-untyped-def]
    if version not in _CALIBRATIONS:
        generator = np.random.default_rng(0)
        source = folder.with_name(f"{folder.name}-people.npz")
        rows = generator.normal(size=(40, 8)).astype(np.float32)
        names = np.array([f"{row}.png" for row in range(40)])
        write_embeddings(source, Embeddings(rows, names, np.array([f"{row // 2}" for row in range(40)])))
        _CALIBRATIONS[version] = calibrate(source, [("0.3", "0.5")[version - 1]], guarantee="expected")
    return _CALIBRATIONS[version]


_CALIBRATIONS: dict = {}


def _read_calibration(folder: Path) -> int:
    from verisphere.ship.calibrate import read_calibration

    (threshold,) = read_calibration(folder / "calibration.json").thresholds
    return {"0.3": OLD, "0.5": NEW}[threshold.far_target]


def _save_scan(folder: Path, version: int) -> None:
    SealedFile(folder / "scan.npz").save({"sweep": np.full(100_000, version), "done": np.full(9, version)})


def _read_scan(folder: Path) -> int:
    state = SealedFile(folder / "scan.npz").load()
    assert state is not None
    assert len(np.unique(np.concatenate([state["sweep"], state["done"]]))) == 1
    assert state["sweep"].shape == (100_000,)
    return int(state["done"][0])


def _save_model(folder: Path, version: int) -> None:
    """`export`, but for the ONNX file, which takes seconds: some bytes in its place."""
    from verisphere.models.build import build_backbone
    from verisphere.ship import export

    run = folder.parent / "run"  # one for all folders, made before the first kill
    if not run.exists():
        network = {
            "class_path": "verisphere.backbones.mobilefacenet.MobileFaceNet",
            "init_args": {"embedding_size": 8, "width": 0.05},
        }
        torch.manual_seed(0)
        weights = dict(build_backbone(network).state_dict())
        data = {"images": 4, "people": 2, "sha256": "0"}
        save_checkpoint(run, 1, {"backbone": weights}, {"backbone": network, "seed": 0, "data": data})
    export.write_onnx = lambda path, *_: path.write_bytes(bytes(50_000))  # type: ignore[assignment]
    export.read_onnx = lambda path: path  # type: ignore[assignment]
    export.compare_onnx = lambda *_: None  # type: ignore[assignment]
    export.export_model(run, folder / f"model-{version}")


def _read_model(folder: Path) -> int:
    from verisphere.models.folder import load

    found = [version for version in (OLD, NEW) if (folder / f"model-{version}").exists()]
    for version in found:
        load(folder / f"model-{version}", "cpu")
    return max(found, default=0)


def _adopt_model(folder: Path, version: int) -> None:
    """`adopt`, but for the first run of the graph, which writes nothing and takes a process of its own."""
    from foreign_graphs import SIZE, graph, written
    from verisphere.models.first_run import FirstRun
    from verisphere.ship import adopt
    from verisphere.ship.pixels import Told

    adopt.first_run = lambda *_: FirstRun(SIZE, None, 0.1)  # type: ignore[assignment]
    net = written(folder.with_name("net.onnx"), graph())
    told = Told(colour="RGB", mean=0.0, scale=1.0, template="mine_8x8")
    adopt.adopt_onnx(net, folder / f"model-{version}", told, trainable=True)


def _save_report(folder: Path, version: int) -> None:
    """`report`, but for its pictures, which take seconds."""
    from verisphere.measure import report_folder

    def write(partial: Path, contents: int) -> None:
        (partial / "plots").mkdir(parents=True)
        for name in ("curve", "scores"):
            (partial / "plots" / f"{name}.svg").write_text(str(contents))
        (partial / "report.html").write_text(f"{contents}" * 50_000)
        (partial / "figures.json").write_text(json.dumps({"format": report_folder.FORMAT, "version": contents}))

    report_folder._write = write  # type: ignore[assignment]
    report_folder.write_report(folder / "report", version)  # type: ignore[arg-type]


def _read_report(folder: Path) -> int:
    version = json.loads((folder / "report" / "figures.json").read_text())["version"]
    assert (folder / "report" / "report.html").read_text() == f"{version}" * 50_000
    assert {path.read_text() for path in (folder / "report" / "plots").iterdir()} == {str(version)}
    return int(version)


def _convert_pack(folder: Path, version: int) -> None:
    """`data convert` into an archive, with its manifest beside it."""
    from verisphere.measure.data.convert import convert

    source = folder.parent / "faces"  # one for all folders, made before the first kill
    if not source.exists():
        for person in range(2):
            (source / str(person)).mkdir(parents=True)
            for number in range(3):
                (source / str(person) / f"{number}.png").write_bytes(bytes([person, number]) * 2000)
    convert(source, folder / f"pack-{version}.zip")


def _read_pack(folder: Path) -> int:
    from verisphere.images.packs.folders import ZIP
    from verisphere.measure.data.verify import manifest_faults

    found = [version for version in (OLD, NEW) if (folder / f"pack-{version}.zip").exists()]
    for version in found:
        path = folder / f"pack-{version}.zip"
        assert (folder / f"pack-{version}.zip.manifest.json").exists()
        assert not [*ZIP.faults(path), *manifest_faults(path, ZIP, ZIP.read(path))]
        assert len(ZIP.read(path)) == 6
    return max(found, default=0)


SAVERS = {
    "checkpoint": Saver(_save_checkpoint, _read_checkpoint),
    "embeddings": Saver(_save_embeddings, _read_embeddings),
    "calibration": Saver(_save_calibration, _read_calibration),
    "state of an all-pairs scan": Saver(_save_scan, _read_scan),
    "model folder": Saver(_save_model, _read_model, first=True),
    "adopted model folder": Saver(_adopt_model, _read_model, first=True),
    "converted pack": Saver(_convert_pack, _read_pack, first=True),
    "report": Saver(_save_report, _read_report),
}


# --- how it is killed -------------------------------------------------------------------------------------------------


class _Steps:
    """Counts the steps that this process makes on files, and kills it before one of them."""

    def __init__(self, last: int | None) -> None:
        self.made, self.last = 0, last
        really = os.fsync

        def fsync(descriptor: int) -> None:
            self.step("os.fsync")
            really(descriptor)

        os.fsync = fsync
        sys.addaudithook(lambda event, arguments: self.step(event))

    def step(self, event: str) -> None:
        """Count an event, where it is a step."""
        if event not in (*STEPS, "os.fsync"):
            return
        if self.made == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.made += 1


def _forked(work: Callable[[], int]) -> int:
    """Start some work in a copy of this process, which ends with what it returns as its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return child


def steps_of(save: Callable[[], None]) -> int:
    """How many steps a save makes."""
    reader, writer = os.pipe()

    def work() -> int:
        steps = _Steps(None)
        save()
        os.write(writer, str(steps.made).encode())
        return 0

    child = _forked(work)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    assert status == 0, "a save that nothing disturbs has failed"
    made = int(os.read(reader, 100))
    os.close(reader)
    return made


def killed_before_step(save: Callable[[], None], step: int) -> None:
    """Save in a copy of this process, which is killed before this step."""

    def work() -> int:
        _Steps(step)
        save()
        return 0

    _, status = os.waitpid(_forked(work), 0)
    assert os.WIFSIGNALED(status), "the save was over before it was killed"


def killed_after(save: Callable[[], None], seconds: float) -> None:
    """Save again and again in a copy of this process, which is killed after so many seconds."""
    reader, writer = os.pipe()

    def work() -> int:
        os.write(writer, b"x")
        while True:
            save()

    child = _forked(work)
    os.read(reader, 1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    assert os.WIFSIGNALED(status), "a save has failed"


def kill_and_read(saver: Saver, folder: Path, kill: Callable[[Callable[[], None]], None]) -> str:
    """Kill a save of the new version over the old one, and say what is there then; and after saving once more."""
    folder.mkdir(parents=True)
    if not saver.first:
        saver.save(folder, OLD)
    kill(lambda: saver.save(folder, NEW))
    try:
        found = saver.read(folder)
        if found == 0 and not saver.first:
            return "nothing is there"
        if found != NEW or not saver.first:  # a model folder that is there is not written again
            saver.save(folder, NEW)
        if saver.read(folder) != NEW:
            return "the next save left something else"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "new" if found == NEW else "old"


def main(name: str, folder: Path, kills: int) -> None:
    """Print a line for each kill."""
    saver, chance = SAVERS[name], random.Random(0)
    for room in ("loaded", "measured"):  # first what is loaded and computed once, then the save alone
        (folder / room).mkdir(parents=True)
        for version in (NEW,) if saver.first else (OLD, NEW):
            began = time.monotonic()
            saver.save(folder / room, version)
            took = time.monotonic() - began
    (folder / "counted").mkdir()
    if not saver.first:
        saver.save(folder / "counted", OLD)
    steps = steps_of(lambda: saver.save(folder / "counted", NEW))
    for kill in range(kills):
        place = folder / str(kill)
        if kill % 2 and not saver.first:
            seconds = chance.uniform(0, 2 * took)
            found = kill_and_read(saver, place, partial(killed_after, seconds=seconds))
            print(f"after {seconds:.4f} s: {found}", flush=True)
        else:
            last = kills - 1 if saver.first else kills - 2
            step = kill * (steps - 1) // last
            found = kill_and_read(saver, place, partial(killed_before_step, step=step))
            print(f"before step {step} of {steps}: {found}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
