"""Two definitions as plain data, compared value by value."""

from collections.abc import Iterable, Mapping

from verisphere.files.json_values import shown


def changed_values(who: str, before: object, now: object) -> list[str]:
    """The values in which two definitions as plain data differ, in words.

    >>> changed_values("recipe", {"epochs": 4, "seed": 0}, {"epochs": 5, "seed": 0})
    ['recipe: epochs was 4 and is 5']

    Args:
        who: name of the owner of the values, for the messages.
        before, now: the definitions.
    """
    old, new = _leaves(before), _leaves(now)
    return [
        f"{who}: {name or 'it'} was {shown(old.get(name))} and is {shown(new.get(name))}"
        for name in dict.fromkeys([*old, *new])
        if name not in old or name not in new or old[name] != new[name]
    ]


def _leaves(value: object, name: str = "") -> dict[str, object]:
    """All values inside, by dotted name."""
    inside: Iterable[tuple[object, object]]
    if isinstance(value, Mapping) and value:
        inside = value.items()
    elif isinstance(value, list) and value:
        inside = enumerate(value)
    else:
        return {name: value}
    return {
        leaf: value_inside
        for key, entry in inside
        for leaf, value_inside in _leaves(entry, f"{name}.{key}" if name else str(key)).items()
    }
