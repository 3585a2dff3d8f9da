"""One input at a time, read within limits, and what came of it."""

import contextlib
import json
import logging
import os
import resource
import shutil
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import verisphere
from fuzz.containers import Files
from fuzz.junk import CANARY
from fuzz.readers import Reader
from verisphere.cli.messages import fail, message_of

logging.getLogger("verisphere").addHandler(logging.NullHandler())  # its notes are for a log, not findings
SECONDS = 8.0  # of processor time that a reader may take for one input, all of which are small
BYTES = 256 << 20  # by which the process may grow while it reads one
ROOM = 4 << 30  # of address space beyond what it had: larger claims meet MemoryError, and spare the machine
LONGEST = 1000  # letters of the one line, the input's own folder not counted

ACCEPTED, REFUSED = "accepted", "refused"


@dataclass(frozen=True)
class Outcome:
    """What came of an input.

    Attributes:
        verdict: accepted, refused, or what is wrong: a finding, in a few words that similar findings share.
        said: the refusal's line, or the error's text.
        seconds: of processor time.
        bytes: by which the process grew.
    """

    verdict: str
    said: str = ""
    seconds: float = 0.0
    bytes: int = 0

    @property
    def finding(self) -> bool:
        """Whether it is neither accepted nor refused as promised."""
        return self.verdict not in (ACCEPTED, REFUSED)

    def line(self) -> str:
        """As a worker sends it."""
        return json.dumps(asdict(self))


def write_files(folder: Path, files: Files) -> None:
    """An input's files, and nothing else, in this folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def limit_memory() -> None:
    """Keep claims of more address space than any reader needs from this process."""
    here = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (here + ROOM, here + ROOM))


def judge(reader: Reader, files: Files, folder: Path, output: int) -> Outcome:
    """Read an input and say what came of it.

    Args:
        reader: what reads it.
        files: its files.
        folder: where to put them; the process works beside it, so that a relative path leads nowhere else.
        output: a file that standard output and standard error go to.
    """
    write_files(folder, files)
    _emptied(output)
    Path("/proc/self/clear_refs").write_text("5")  # the peak of the memory begins anew
    before, began = _memory("VmRSS"), time.process_time()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)  # as Python does for its users
        verdict, said = _verdict(reader, folder, files, output)
    seconds, grown = time.process_time() - began, _memory("VmHWM") - before
    if os.path.lexists(CANARY):
        verdict, said = "it was executed", f"the canary was made; {said}"
        with contextlib.suppress(OSError):
            os.rmdir(CANARY)
    elif verdict in (ACCEPTED, REFUSED):
        if seconds > SECONDS:
            verdict, said = "it took long", f"{seconds:.1f} s; {verdict}: {said}"
        elif grown > BYTES:
            verdict, said = "it took much memory", f"{grown >> 20} MB; {verdict}: {said}"
        elif heard:
            verdict, said = "a warning reached the user", f"{heard[0].category.__name__}: {heard[0].message}"
        elif os.fstat(output).st_size:
            verdict, said = "a library talked to the user", os.pread(output, 500, 0).decode(errors="replace")
    return Outcome(verdict, said.replace(str(folder), "INPUT"), round(seconds, 3), grown)


def _emptied(output: int) -> str:
    """What is in the file that is written to instead of a terminal; it is empty afterwards."""
    sys.stdout.flush()
    sys.stderr.flush()
    text = os.pread(output, 1 << 20, 0).decode(errors="replace")
    os.ftruncate(output, 0)
    os.lseek(output, 0, os.SEEK_SET)
    return text


def _verdict(reader: Reader, folder: Path, files: Files, output: int) -> tuple[str, str]:
    try:
        reader.read(folder)
    except (ValueError, OSError) as error:
        talk = _emptied(output)
        fail(2, message_of(error))  # as the command line would end
        line = _emptied(output).removeprefix("verisphere: ").removesuffix("\n").replace(str(folder), "INPUT")
        os.write(output, talk.encode())
        return fault_of(line, (*map(os.path.basename, files), "INPUT"), reader.fields) or REFUSED, line
    except BaseException as error:
        return f"{type(error).__name__} {_place(error)}", str(error)[:500]
    return ACCEPTED, ""


def fault_of(line: str, names: Sequence[str], fields: tuple[str, ...]) -> str:
    """What is wrong with the line that refuses an input."""
    if len(line) > LONGEST:
        return f"a line of {'many thousand' if len(line) > 10_000 else 'more than a thousand'} letters"
    if not line.strip():
        return "an empty line"
    if any(not letter.isprintable() for letter in line):
        return "a control character in the line"
    if not line.startswith(fields) and not any(name in line for name in names):
        return "a line that names no file"
    return ""


def _place(error: BaseException) -> str:
    """The last line of the project's own code that an error came through."""
    trace, found = error.__traceback__, ""
    home = os.path.dirname(verisphere.__file__) + os.sep
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if path.startswith(home):
            found = f"in {path.removeprefix(home)}: {trace.tb_frame.f_code.co_name}"
        trace = trace.tb_next
    return found


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0
