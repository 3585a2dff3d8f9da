"""The check of a count that the user of a pair term chooses."""


def check_count(name: str, count: int, least: int = 1, most: int = 10**6) -> None:
    """Refuse a count out of range; the default maximum is beyond any use, and below what overflows a tensor's size."""
    if count < least:
        raise ValueError(f"{name} is {count}; it must be at least {least}")
    if count > most:
        raise ValueError(f"{name} is {count:,}; it must be at most {most:,}")
