"""Names, numbers and objects as text for messages and notebooks."""

from collections.abc import Mapping, Sequence


def join_names(names: Sequence[str], most: int = 5) -> str:
    """Join names for a message. After `most` names, only the number of the others follows.

    >>> join_names(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def pluralize(number: int, noun: str) -> str:
    """A number with its noun. A key of JSON, which is a plural with underscores, is also accepted as noun.

    >>> pluralize(1, "sentence"), pluralize(1200, "word"), pluralize(1, "skipped_files")
    ('1 sentence', '1,200 words', '1 skipped file')
    """
    singular = noun.replace("_", " ").removesuffix("s")
    return f"{number:,} {singular}{'' if number == 1 else 's'}"


def html_table(title: str, rows: Mapping[str, object]) -> str:
    """A table for notebooks. Title and cells are escaped.

    >>> html_table("Embedder <tiny>", {"dim": 32})
    '<table><caption>Embedder &lt;tiny&gt;</caption><tr><th>dim</th><td>32</td></tr></table>'
    """
    from html import escape  # imported here: only notebooks need it

    cells = "".join(f"<tr><th>{escape(field)}</th><td>{escape(str(value))}</td></tr>" for field, value in rows.items())
    return f"<table><caption>{escape(title)}</caption>{cells}</table>"
