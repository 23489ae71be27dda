"""What was measured, as the files keep it, and how a page shows a number or a table of them."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def read(path: Path) -> Any:
    """What a file of results holds; nothing if it was never measured."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def newest(path: Path) -> dict[str, dict[str, Any]]:
    """The last line of each published size, the smallest size first."""
    lines = {line["size"]: line for line in read_lines(path)}
    return {size: lines[size] for size in ("small", "medium", "original") if size in lines}


def directions(values: Any) -> Iterable[float]:
    """Forward and backward, whether a log has them by name or in order."""
    return values.values() if isinstance(values, dict) else values


def constant(script: Path, name: str) -> str:
    """A whole number that a script sets at its top, for what it measures with."""
    found = re.search(rf"^{name} = ([\d_]+)", script.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{script}: sets no {name}")
    return f"{int(found[1]):,}"


def in_words(number: int) -> str:
    """As prose has it.

    >>> in_words(2), in_words(12), in_words(30)
    ('two', 'twelve', '30')
    """
    words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    return words[number] if number < len(words) else str(number)


def thousands(number: int) -> str:
    return f"{round(number, -3):,}"


def share_of_peak(reached: float, peak: float) -> str:
    return f"{100 * reached / peak:.0f} % of {peak} TFLOP/s"


def bound(difference: float) -> str:
    """A largest difference with one digit, rounded up.

    >>> bound(0.0), bound(5.5e-6), bound(4e-6)
    ('bit-equal', '6e-06', '4e-06')
    """
    if difference == 0:
        return "bit-equal"
    unit = 10.0 ** math.floor(math.log10(difference))
    return f"{math.ceil(difference / unit - 1e-9) * unit:.0e}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1) -> str:
    """A table of Markdown; the first columns are text, the rest numbers."""
    marks = ["---" if n < texts else "--:" for n in range(len(head))]
    lines = [re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(cells)} |") for cells in (head, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(marks)}|", *lines[1:]])
