"""Write the measured tables into this folder's README, from results/.

python experiments/elmore-en/report.py
"""

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def main() -> None:
    log = [json.loads(line) for line in (HERE / "results" / "log.jsonl").read_text().splitlines()]
    measured = {path.stem: json.loads(path.read_text()) for path in (HERE / "results").glob("*.json")}
    tables = {
        "epochs": table(
            ["epoch", "forward", "backward", "mean"],
            [
                [str(n), *(f"{one:.1f}" for one in each(entry)), f"{entry['heldout']:.1f}"]
                for n, entry in enumerate((entry for entry in log if "heldout" in entry), start=1)
            ],
        ),
        "texts": table(
            ["text", "tokens", "`<UNK>`", "passages of", "forward", "backward", "mean"],
            [
                [
                    name,
                    f"{one['tokens']:,}",
                    f"{one['unknown']:.1%}",
                    str(one["passage"]),
                    *numbers(one, "forward", "backward", "mean"),
                ]
                for name, one in sorted(measured["perplexity"].items())
            ],
        ),
        "int8": table(
            ["text", "float32", "int8"],
            [[name, *(f"{one[kind]:.2f}" for kind in ("float32", "int8"))] for name, one in measured["int8"].items()],
        ),
        "start": table(
            ["", *measured["start_state"]],
            [
                [
                    name,
                    *(
                        f"{start[name]:.2f}" if start[name] > 1 else f"{start[name]:.1%}"
                        for start in measured["start_state"].values()
                    ),
                ]
                for name in measured["start_state"]["zeros"]
                if name != "start"
            ],
        ),
    }
    page = HERE / "README.md"
    text = page.read_text(encoding="utf-8")
    for name, lines in tables.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        text = re.sub(pattern, lambda found, lines=lines: f"{found[1]}\n{lines}\n\n{found[2]}", text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")


def each(entry: dict[str, Any]) -> list[float]:
    found = entry["heldout_each"]
    return list(found.values()) if isinstance(found, dict) else found


def numbers(one: dict[str, float], *names: str) -> list[str]:
    return [f"{one[name]:.1f}" for name in names]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
