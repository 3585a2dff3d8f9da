"""The command line, from its arguments to the exit code.

Exit codes: 0 done; 2 the call or the input is wrong (one line explains it), or `verify` knows a score and no threshold;
3 a watched promise no longer stands; 1 an internal error, or another process or a training of an experiment failed;
129, 130 and 143 after SIGHUP, Ctrl-C and SIGTERM. Under torchrun, rank 0 prints; other ranks print only errors of their
own.
"""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from verisphere import __version__
from verisphere.base.words import did_you_mean
from verisphere.cli.adopting import add_adopt
from verisphere.cli.asking import add_why
from verisphere.cli.calibrating import add_calibrate
from verisphere.cli.cleaning import add_clean
from verisphere.cli.clustering import add_cluster, add_purity
from verisphere.cli.data import add_data
from verisphere.cli.evaluating import add_evaluate
from verisphere.cli.galleries import add_bridge, add_gallery, add_gate
from verisphere.cli.images import add_align, add_embed
from verisphere.cli.inverting import add_invert, add_leak
from verisphere.cli.memory import LESS_MEMORY, memory_line, memory_ran_out
from verisphere.cli.messages import fail, message_of, several, show_traceback
from verisphere.cli.monitoring import add_monitor
from verisphere.cli.parsing import Parser
from verisphere.cli.recipes import add_recipes
from verisphere.cli.renamed import check_renamed
from verisphere.cli.searching import add_search
from verisphere.cli.serving import add_serve
from verisphere.cli.shipping import add_export, add_identify, add_report, add_verify
from verisphere.cli.threads import settle_threads
from verisphere.cli.training import add_demo, add_experiment, add_train
from verisphere.cli.working import run_verb

log = logging.getLogger(__name__)

#: The signals that were to end the command.
_ended_by: list[int] = []

#: As `verisphere --help` lists them: from faces to a shipped model.
VERBS = (
    add_demo,
    add_align,
    add_data,
    add_recipes,
    add_train,
    add_experiment,
    add_search,
    add_clean,
    add_invert,
    add_leak,
    add_adopt,
    add_embed,
    add_evaluate,
    add_calibrate,
    add_purity,
    add_cluster,
    add_gate,
    add_bridge,
    add_export,
    add_verify,
    add_identify,
    add_gallery,
    add_serve,
    add_monitor,
    add_report,
    add_why,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    _ended_by.clear()  # of an earlier call in this process
    return _guarded(lambda: _start(sys.argv[1:] if arguments is None else list(arguments)))


def _start(arguments: list[str]) -> int:
    options = _parse(arguments)
    return _guarded(lambda: _do(options), options.less_memory)


def _do(options: argparse.Namespace) -> int:
    """Run the verb, together with the other ranks or on rank 0 alone."""
    about_load, about_waiting = settle_threads(options)  # before PyTorch loads
    from verisphere.base.device import choose_device, keep_memory
    from verisphere.base.distributed import joined, launched
    from verisphere.cli.processes import end_with_launcher, first_of_launch
    from verisphere.report.progress import log_to_terminal, say_when_long

    # Not earlier: an exception during the import of PyTorch can leave its C code as another error, with a traceback.
    signal.signal(signal.SIGTERM, _terminated)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # under nohup SIGHUP stays ignored
        signal.signal(signal.SIGHUP, _terminated)
    if not options.default_allocator:
        keep_memory()
    first = first_of_launch()
    if first:
        log_to_terminal()
        if about_load:
            log.info("%s", about_load)
        if about_waiting:
            say_when_long(about_waiting)
    else:
        logging.getLogger("verisphere").setLevel(logging.CRITICAL)
    if not launched():
        run_verb(options)
        return 0
    end_with_launcher()
    if options.shared:
        with joined(cuda=choose_device(_device(options)).type == "cuda"):
            # Report the error before leaving the group: other ranks check whether it was already reported.
            return _guarded(lambda: run_verb(options, first), options.less_memory)
    elif first:
        run_verb(options)
    return 0


def _device(options: argparse.Namespace) -> str | None:
    """The device of the options; the CPU where a verb takes none, or no model that would run on it."""
    return "cpu" if getattr(options, "model", "") is None else getattr(options, "device", "cpu")


def _guarded(work: Callable[[], int | None], less_memory: str = LESS_MEMORY) -> int:
    """The exit code of a function; reports its errors. `less_memory` is the advice if memory ran out."""
    try:
        return work() or 0
    except (KeyboardInterrupt, Exception) as error:
        if _ended_by:  # what stopped it was reported as an error, as by code that takes SystemExit for the user's own
            return 128 + _ended_by[0]
        if several():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends all ranks after one; report first
        return _code_of(error, less_memory)


def _code_of(error: BaseException, less_memory: str) -> int:
    """Report an error, and return its exit code."""
    if isinstance(error, KeyboardInterrupt):
        return fail(128 + signal.SIGINT, "stopped")
    short = memory_ran_out(error)
    if os.environ.get("VERISPHERE_TRACEBACK") and (short or isinstance(error, (ValueError, OSError))):
        show_traceback()
    if short:
        return fail(2, memory_line(error, less_memory))
    if isinstance(error, (ValueError, OSError)):
        from verisphere.base.collectives import FailedElsewhere

        return 2 if isinstance(error, FailedElsewhere) else fail(2, message_of(error))
    from verisphere.base.distributed import PATIENCE
    from verisphere.cli.processes import anything_said, gave_up, lost_another
    from verisphere.study.experiments.run import RunsFailed
    from verisphere.train.loop import TrainingStopped

    if isinstance(error, RunsFailed):
        return fail(1, str(error))
    if isinstance(error, TrainingStopped):
        return fail(128 + error.reason, f"stopped; a checkpoint has been saved, {error.advice}")
    if isinstance(error, RuntimeError) and "DataLoader worker (pid" in str(error):
        return fail(2, f"a process that reads images was ended from outside, perhaps because memory ran out: {error}")
    if lost_another(error):
        if anything_said():
            return 1
        if gave_up(error):
            return fail(1, f"another process did not come for {PATIENCE:.0f} seconds, so this one has given it up")
        advice = "`train` continues with --resume, `search` and `clean` by the same command"
        return fail(1, f"another process has ended, so this one cannot continue; {advice}")
    show_traceback()
    return fail(1, "this is a fault of verisphere, not of your input; please report it with the lines above")


def _terminated(number: int, frame: object) -> NoReturn:
    if number == signal.SIGHUP:
        signal.signal(number, signal.SIG_IGN)  # the terminal and its shell each send the signal
    _ended_by.append(number)
    raise SystemExit(128 + number)


def parser(arguments: Sequence[str] = ()) -> Parser:
    """The parser of the command line: of one verb if the arguments begin with it, else of all; all take 8 ms."""
    made = Parser(
        prog="verisphere",
        description="Face recognition, trained and measured at one threshold.",
        examples=("verisphere demo", "verisphere train --help"),
    )
    made.add_argument("--version", action="version", version=f"verisphere {__version__}")
    made.add_argument(
        "--default-allocator",
        action="store_true",
        help="leave glibc's allocator as it is (training on a CPU then takes 1.4 to 1.8 times as long)",
    )
    verbs = made.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    first = next((word for word in arguments if word != "--default-allocator"), "")
    for add in [add for add in VERBS if add.__name__ == f"add_{first}"] or VERBS:
        add(verbs)
    return made


def _parse(arguments: list[str]) -> argparse.Namespace:
    check_renamed(arguments)
    whole = parser(arguments)
    if not arguments:
        whole.print_help()
        whole.exit(0)
    options, unknown = whole.parse_known_args(arguments)
    if options.any_field:
        options.overrides = unknown
    elif unknown:
        misspelt = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
        near = did_you_mean(misspelt, options.parser.options())
        options.parser.error(f"unrecognised arguments: {' '.join(unknown)}{near}")
    return options
