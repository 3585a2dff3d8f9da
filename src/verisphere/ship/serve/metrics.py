"""Figures of the running service as Prometheus text."""

from collections import Counter
from collections.abc import Mapping

_KINDS = {
    "requests_total": ("counter", "Answers, by path and status."),
    "request_seconds": ("summary", "Time from a request's headers to its answer."),
    "decisions_total": ("counter", "Decisions, by path and verdict."),
    "batch_faces": ("summary", "Faces that went through the network together."),
    "requests_now": ("gauge", "Requests that are being answered."),
    "people": ("gauge", "People in the gallery."),
}


class Metrics(Counter[str]):
    """Counts since the start of this process, by name and labels as Prometheus writes them."""

    def took(self, name: str, amount: float) -> None:
        """Add to the sum and the count of a summary."""
        self[f"{name}_sum"] += amount  # type: ignore[assignment]
        self[f"{name}_count"] += 1

    def text(self, now: Mapping[str, int]) -> str:
        """All counts, and figures of this moment."""
        values, lines = {**self, **now}, list[str]()
        for name, (kind, meaning) in _KINDS.items():
            lines += [f"# HELP verisphere_{name} {meaning}", f"# TYPE verisphere_{name} {kind}"]
            lines += [f"verisphere_{series} {value}" for series, value in values.items() if series.startswith(name)]
        return "\n".join(lines) + "\n"
