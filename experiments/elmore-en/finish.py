"""Put the shipped model together: the trained weights in int8, with a card that has what was measured.

    python experiments/elmore-en/finish.py [TRAINED] [--output src/elmore/models/elmore-en]

TRAINED is the model of the run, with the start state it is to have (`elmore convert --warm`). Without it the weights
that are shipped stay as they are, and only their card is written anew.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from elmore.config import ModelConfig
from elmore.files.json_files import write_json
from elmore.formats import ModelCard
from elmore.formats.card import apply_card_file, read_card_file
from elmore.model import Model, load, save
from elmore.text.style import TOKENIZER_VERSION

HERE = Path(__file__).parent
SHIPPED = HERE.parents[1] / "src" / "elmore" / "models" / "elmore-en"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trained", nargs="?")
    parser.add_argument("--output", type=Path, default=SHIPPED)
    arguments = parser.parse_args()
    if arguments.trained is None:
        write_json(described(load(arguments.output).card).to_dict(), arguments.output / "card.json")
        print(f"wrote {arguments.output / 'card.json'}")
        return
    model = load(arguments.trained)
    save(Model(replace(model.checkpoint, card=described(model.card))), arguments.output, format="folder-int8")
    size = sum(path.stat().st_size for path in arguments.output.iterdir())
    print(f"wrote {arguments.output}: {size / 1e6:.1f} MB")


def described(card: ModelCard) -> ModelCard:
    """The card of the training, with the content of about.toml, the measurements, and the newest tokenizer version.

    The model was trained on text of tokenizer version 1; experiments/tokenizer compares the versions.
    """
    training = dict(card.extra["training"])
    shape = ModelConfig.from_dict(training["recipe"]["model"])
    training["recipe"] = training["recipe"] | {"model": shape.to_dict()}  # in the words of this version
    measured = {path.stem: json.loads(path.read_text()) for path in sorted((HERE / "results").glob("*.json"))}
    told = read_card_file(HERE / "about.toml") | {"measured": measured}
    text = replace(card.text, tokenizer_version=TOKENIZER_VERSION)
    return apply_card_file(replace(card, text=text, extra=card.extra | {"training": training}), told)


if __name__ == "__main__":
    main()
