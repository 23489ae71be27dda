"""How well does the shipped model predict text it was not trained on? Its perplexity on every evaluation text.

    python experiments/elmore-en/perplexity.py MODEL [--texts FOLDER] [--only NAME ...] [--device cuda] [--at-once 6]

The texts lie in ../shared/data/text/eval unless --texts says otherwise. Runs `elmore perplexity` on each, and writes
results/perplexity.json, where texts that were not asked for keep what they had.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "perplexity.json"
TEXTS = Path(__file__).resolve().parents[3] / "shared" / "data" / "text" / "eval"
KEPT = ("tokens", "unknown", "forward", "backward", "mean", "state", "rows", "passage")
TOKENIZED = ("1b-", "wikitext2-")  # how the names of files begin that come as one tokenised sentence a line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--texts", type=Path, default=TEXTS)
    parser.add_argument("--only", nargs="*", help="names of texts, without .txt.xz")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--at-once", type=int, default=1)
    arguments = parser.parse_args()
    texts = [
        path
        for path in sorted(arguments.texts.glob("*.txt.xz"))
        if name_of(path) in (arguments.only or [name_of(path)])
    ]
    if not texts:
        raise SystemExit(f"{arguments.texts}: no such texts (*.txt.xz) there")
    with ThreadPoolExecutor(arguments.at_once) as pool:
        measured = pool.map(lambda text: measure(arguments.model, text, device=arguments.device), texts)
        found = {name_of(text): one for text, one in zip(texts, measured, strict=True)}
    RESULTS.parent.mkdir(exist_ok=True)
    results = (json.loads(RESULTS.read_text()) if RESULTS.exists() else {}) | found
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    for name, one in found.items():
        print(f"{name:<18}{one['mean']:8.1f}   forward {one['forward']:.1f}, backward {one['backward']:.1f}, ", end="")
        print(f"{one['tokens']:,} tokens, {one['unknown']:.1%} of them <UNK>")


def name_of(text: Path) -> str:
    return text.name.removesuffix(".txt.xz")


def measure(model: str, text: Path, *, device: str) -> dict[str, Any]:
    tokenized = ["--tokenized"] if text.name.startswith(TOKENIZED) else []
    options = ["--model", model, *tokenized, "--device", device, "--json"]
    command = [sys.executable, "-m", "elmore", "perplexity", str(text), *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(ended.stderr)
    told = json.loads(ended.stdout)
    return {name: told[name] for name in KEPT}


if __name__ == "__main__":
    main()
