"""How well does the shipped model predict text it was not trained on? Its perplexity on every evaluation text.

    python experiments/elmore-en/perplexity.py MODEL [--texts FOLDER] [--device cuda] [--at-once 6]

Runs `elmore perplexity` on each file and writes results/perplexity.json.
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
TOKENIZED = ("1b-", "wikitext2-")  # how the names of files begin that come as one tokenised sentence a line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--texts", type=Path, default=TEXTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--at-once", type=int, default=1)
    arguments = parser.parse_args()
    texts = sorted(arguments.texts.glob("*.txt.xz"))
    if not texts:
        raise SystemExit(f"{arguments.texts}: no texts (*.txt.xz) there")
    with ThreadPoolExecutor(arguments.at_once) as pool:
        measured = pool.map(lambda text: measure(arguments.model, text, device=arguments.device), texts)
        results = {text.name.removesuffix(".txt.xz"): one for text, one in zip(texts, measured, strict=True)}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    for name, one in results.items():
        print(f"{name:<18}{one['mean']:8.1f}   forward {one['forward']:.1f}, backward {one['backward']:.1f}, ", end="")
        print(f"{one['tokens']:,} tokens, {one['unknown']:.1%} of them <UNK>")


def measure(model: str, text: Path, *, device: str) -> dict[str, Any]:
    tokenized = ["--tokenized"] if text.name.startswith(TOKENIZED) else []
    command = [sys.executable, "-m", "elmore", "perplexity", model, str(text), *tokenized, "--device", device, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(ended.stderr)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


if __name__ == "__main__":
    main()
