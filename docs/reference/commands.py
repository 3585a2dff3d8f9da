"""The page of the command line: every verb with its arguments, from the parser."""

import argparse

from reference.markdown import MADE, escaped
from verisphere.cli.start import parser

#: Where the help of a verb lists what another page has: the start of the group's title, and what stands in its place.
_ELSEWHERE = {"fields of a recipe": "Any [field of a recipe](recipe.md) may follow as `--field value`."}


def commands_page() -> str:
    """Every verb, in the order of `verisphere --help`."""
    whole = parser()
    listed = [
        f"- [{name}](#{name.replace(' ', '-')}): {escaped(_sentence(verb))}" for name, verb, _ in _verbs(whole, "")
    ]
    blocks = [
        "# Command line",
        "`verisphere VERB --help` shows the same in a terminal. Exit codes, and what an interrupted command leaves "
        "behind, are in [When things go wrong](../reliability.md).",
        MADE,
        "\n".join(listed),
        _arguments(whole),
    ]
    for name, verb, inner in _verbs(whole, ""):
        blocks += [f"## {name}", escaped(verb.description or "")]
        if inner:
            blocks.append("Its verbs: " + ", ".join(f"[{word}](#{name}-{word})" for word in inner) + ".")
        blocks += [_usage(verb), _arguments(verb), *_groups(verb), _examples(verb)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _verbs(above: argparse.ArgumentParser, name: str) -> list[tuple[str, argparse.ArgumentParser, list[str]]]:
    """Each verb below a parser, at any depth: its words, its parser, and the verbs below it."""
    found = []
    for word, verb in _below(above).items():
        words = f"{name} {word}".strip()
        found += [(words, verb, list(_below(verb))), *_verbs(verb, words)]
    return found


def _below(above: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {
        word: verb
        for action in above._actions
        if isinstance(action, argparse._SubParsersAction)
        for word, verb in action.choices.items()
    }


def _sentence(verb: argparse.ArgumentParser) -> str:
    return " ".join((verb.description or "").split("\n\n")[0].split())


def _listed(verb: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for action in verb._actions
        if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
        and action.help is not argparse.SUPPRESS
    ]


def _usage(verb: argparse.ArgumentParser) -> str:
    """How the verb is called: what must be given, and [options] if there are any."""
    words = [verb.prog]
    words += [f"{_spelt(action)}" for action in _listed(verb) if action.option_strings and action.required]
    words += [_spelt(action) for action in _listed(verb) if not action.option_strings]
    words += ["[options]"] if any(action.option_strings and not action.required for action in _listed(verb)) else []
    words += ["VERB ..."] if _below(verb) else []
    return f"```\n{' '.join(words)}\n```"


def _spelt(action: argparse.Action) -> str:
    """An argument with its value, as one types it."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    metavar = action.metavar or choices or (action.dest.upper() if action.option_strings else action.dest)
    values = list(metavar) if isinstance(metavar, tuple) else [metavar]
    if isinstance(action.nargs, int):
        values = values * (action.nargs if len(values) == 1 else 1)
    text = " ".join(values)
    if action.nargs == "?":
        text = f"[{text}]"
    elif action.nargs == "*":
        text = f"[{text} ...]"
    elif action.nargs == "+":
        text = f"{text} ..."
    if not action.option_strings:
        return text
    return action.option_strings[-1] + ("" if action.nargs == 0 else f" {text}")


def _arguments(verb: argparse.ArgumentParser) -> str:
    expanded = verb._get_formatter()._expand_help
    lines = []
    for action in _listed(verb):
        required = " (required)" if action.option_strings and action.required else ""
        meaning = escaped(expanded(action)) if action.help else ""
        lines.append(f"- `{_spelt(action)}`{required}: {meaning}".removesuffix(": "))
    return "\n".join(lines)


def _groups(verb: argparse.ArgumentParser) -> list[str]:
    """What stands for each group of the help that another page has."""
    titles = [group.title or "" for group in verb._action_groups]
    return [text for start, text in _ELSEWHERE.items() if any(title.startswith(start) for title in titles)]


def _examples(verb: argparse.ArgumentParser) -> str:
    lines = [line.strip() for line in (verb.epilog or "").splitlines()[1:]]
    return "```\n" + "\n".join(lines) + "\n```" if lines else ""
