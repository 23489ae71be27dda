"""How objects show themselves in a notebook."""

from collections.abc import Mapping
from html import escape


def html_table(title: str, rows: Mapping[str, object]) -> str:
    """A small table with a title; whatever stands in it is text.

    >>> html_table("Embedder <tiny>", {"dim": 32})
    '<table><caption>Embedder &lt;tiny&gt;</caption><tr><th>dim</th><td>32</td></tr></table>'
    """
    cells = "".join(f"<tr><th>{escape(field)}</th><td>{escape(str(value))}</td></tr>" for field, value in rows.items())
    return f"<table><caption>{escape(title)}</caption>{cells}</table>"
