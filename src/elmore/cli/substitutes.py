"""`elmore substitutes`: what the model would put in a place of a sentence."""

import json
from itertools import zip_longest
from typing import TYPE_CHECKING

from elmore.cli.command import INPUT, argument, option, verb
from elmore.cli.model_options import ModelChoice, compute_option, model_options
from elmore.cli.text_options import token_style_option
from elmore.cli.verbosity import Verbosity
from elmore.defaults import DEFAULT_TOP, ComputeName
from elmore.errors import InputError
from elmore.text.style import TokenStyle

if TYPE_CHECKING:
    from elmore.scoring.substitutes import Candidate


@verb()
@argument("sentence", metavar="SENTENCE", help="One place of it in brackets: 'He was wielding a [bow] and arrow'.")
@option("--top", default=DEFAULT_TOP, metavar="N", help="How many words to tell.")
@option("--specials", is_flag=True, help="Tell boundaries and <UNK> too.")
@option("--json", "as_json", is_flag=True, help="Print JSON.")
@option("--tokenized", is_flag=True, panel=INPUT, help="Words are separated by blanks: take them as they are.")
@token_style_option
@model_options
@compute_option
def substitutes(
    verbosity: Verbosity,
    model: ModelChoice,
    *,
    sentence: str,
    top: int,
    specials: bool,
    as_json: bool,
    tokenized: bool,
    token_style: TokenStyle,
    compute: ComputeName,
) -> None:
    """Tell which words a model would put in a place of a sentence.

    By what is left of the brackets, by what is right of them, and by both: the product of the two probabilities,
    divided by how probable the word is anyway, and made to sum to one.
    """
    from elmore.scoring.substitutes import substitutes as find
    from elmore.text.tokenizer import split_on_spaces

    if token_style != "moses" and not tokenized:
        raise InputError("--token-style is for a sentence that comes as tokens; say --tokenized")
    given = split_on_spaces(sentence) if tokenized else sentence
    scorer = model.load_scorer(verbosity, compute)
    found = find(given, model=scorer, top=top, specials=specials, token_style=token_style)
    if as_json:
        lists = {side: words and [c._asdict() for c in words] for side, words in found._asdict().items()}
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
