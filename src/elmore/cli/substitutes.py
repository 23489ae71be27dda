"""`elmore substitutes`: what the model would put in a place of a sentence."""

import json
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.model_options import ModelArgument, VocabularyFile
from elmore.cli.speaking import Quiet, Speech, Verbose

if TYPE_CHECKING:
    from elmore.scoring.substitutes import Candidate


def substitutes(
    context: typer.Context,
    model: ModelArgument,
    sentence: Annotated[
        str,
        typer.Argument(help="One place of it in brackets: 'He was wielding a \\[bow] and arrow'.", metavar="SENTENCE"),
    ],
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="Words are separated by blanks: take them as they are.")
    ] = False,
    top: Annotated[int, typer.Option(help="How many words to tell.")] = 10,
    specials: Annotated[bool, typer.Option("--specials", help="Tell boundaries and <UNK> too.")] = False,
    vocab: VocabularyFile = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Tell which words MODEL would put in the brackets: by what is left of them, by what is right, and by both.

    "Both" is their product, divided by how probable the word is anyway, and made to sum to one.
    """
    from elmore.model import load
    from elmore.scoring.substitutes import substitutes as find
    from elmore.text.tokenizing import split_at_blanks

    Speech.of(context, quiet=quiet, verbose=verbose)
    loaded = load(model, vocabulary=vocab, device=device)
    found = find(loaded, split_at_blanks(sentence) if tokenized else sentence, top=top, specials=specials)
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
