"""Put the shipped model together: the trained weights in int8, with a card that has what was measured.

    python experiments/elmore-en/finish.py TRAINED [--output src/elmore/models/elmore-en]

TRAINED is the model of the run, with the start state it is to have (`elmore convert --warm`).
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from elmore.config import ModelConfig
from elmore.formats.card_file import read_about, with_about
from elmore.model import load, save

HERE = Path(__file__).parent
SHIPPED = HERE.parents[1] / "src" / "elmore" / "models" / "elmore-en"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trained")
    parser.add_argument("--output", type=Path, default=SHIPPED)
    arguments = parser.parse_args()
    model = load(arguments.trained)
    measured = {path.stem: json.loads(path.read_text()) for path in sorted((HERE / "results").glob("*.json"))}
    training = dict(model.card.extra["training"])
    shape = ModelConfig.from_dict(training["recipe"]["model"])
    training["recipe"] = training["recipe"] | {"model": shape.to_dict()}  # in the words of this version
    described = replace(model.card, extra=model.card.extra | {"training": training})
    card = with_about(described, read_about(HERE / "about.toml") | {"measured": measured})
    save(replace(model, card=card), arguments.output, format="folder-int8")
    size = sum(path.stat().st_size for path in arguments.output.iterdir())
    print(f"wrote {arguments.output}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
