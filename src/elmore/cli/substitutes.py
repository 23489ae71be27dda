"""`elmore substitutes`: the words that a model predicts for one position of a sentence."""

import json
from itertools import zip_longest
from typing import TYPE_CHECKING

from elmore.cli.command import INPUT, argument, command, option
from elmore.cli.options import ModelOptions, compute_option, model_options, token_style_option
from elmore.cli.output import Verbosity
from elmore.defaults import DEFAULT_TOP, ComputeName
from elmore.errors import InputError
from elmore.text.style import TokenStyle

if TYPE_CHECKING:
    from elmore.scoring.substitutes import Candidate


@command()
@argument(
    "sentence",
    metavar="SENTENCE",
    help="A sentence with one position in brackets: 'He was wielding a [bow] and arrow'.",
)
@option("--top", default=DEFAULT_TOP, metavar="N", help="Number of words to print.")
@option("--specials", is_flag=True, help="Also print boundary words and <UNK>.")
@option("--json", "as_json", is_flag=True, help="Print JSON.")
@option("--tokenized", is_flag=True, panel=INPUT, help="The words of SENTENCE are separated by spaces.")
@token_style_option
@model_options
@compute_option
def substitutes(
    verbosity: Verbosity,
    model: ModelOptions,
    *,
    sentence: str,
    top: int,
    specials: bool,
    as_json: bool,
    tokenized: bool,
    token_style: TokenStyle,
    compute: ComputeName,
) -> None:
    """Predict the words that fit one position of SENTENCE.

    Three lists: from the words to the left of the brackets, from those to the right, and from both. The last is the
    product of the two probabilities, divided by the word's overall probability and normalized.
    """
    from elmore.scoring.substitutes import substitutes as find
    from elmore.text.tokenizer import split_on_spaces

    if token_style != "moses" and not tokenized:
        raise InputError("--token-style is for a tokenized sentence; add --tokenized")
    words = split_on_spaces(sentence) if tokenized else sentence
    scorer = model.load_scorer(verbosity, compute)
    found = find(words, model=scorer, top=top, specials=specials, token_style=token_style)
    if as_json:
        lists = {
            side: candidates and [each._asdict() for each in candidates] for side, candidates in found._asdict().items()
        }
        print(json.dumps({"sentence": sentence, **lists}, indent=2, ensure_ascii=False))
    else:
        titles = ("from the left", "from the right", "from both")
        columns = [_column(title, words) for title, words in zip(titles, found, strict=True) if words is not None]
        for row in zip_longest(*columns, fillvalue=""):
            print("   ".join(row).rstrip())


def _column(title: str, candidates: "list[Candidate]") -> list[str]:
    cells = [title, *(f"{candidate.probability:7.2%}  {candidate.word}" for candidate in candidates)]
    width = max(map(len, cells))
    return [cell.ljust(width) for cell in cells]
