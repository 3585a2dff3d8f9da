"""Every verb of the command line by its words, each kind of a verb as one of its own."""

import argparse

from verisphere.cli.parsing import Parser
from verisphere.cli.start import parser


def below(above: argparse.ArgumentParser) -> dict[str, Parser]:
    """The verbs right below a parser."""
    actions = [action for action in above._actions if isinstance(action, argparse._SubParsersAction)]
    return {word: verb for action in actions for word, verb in action.choices.items()}


def every_verb(above: argparse.ArgumentParser, words: str = "") -> dict[str, Parser]:
    """All verbs below a parser."""
    found = {}
    for word, verb in below(above).items():
        name = f"{words} {word}".strip()
        found |= {name: verb} | every_verb(verb, name)
    return found


EVERY = every_verb(parser())
#: Those that do something: no verb stands below them.
LEAVES = {words: verb for words, verb in EVERY.items() if not below(verb)}
