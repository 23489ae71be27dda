"""The biLM of a task: loaded by the recipe, fine-tuned on the task's text where that is asked for, and known again.

A task model is worth nothing with another biLM than the one it was trained with, so that one's fingerprint is kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from elmore.corpus.prepare import prepare
from elmore.embedding.embedder import Embedder
from elmore.errors import InputError, error_context
from elmore.model import Model, load
from elmore.pretraining.events import Finished
from elmore.pretraining.pretrain import pretrain
from elmore.tasks.model_folder import RequiredBilm
from elmore.tasks.recipe import ElmoOptions
from elmore.text.style import TokenStyle
from elmore.text.token_style import convert_tokens

HELDOUT_SHARE = 0.05  # of the task's sentences, to measure fine-tuning by


def requirement_of(model: Model, name: str) -> RequiredBilm:
    """What a task model keeps of the biLM it is trained with."""
    config = model.config
    return RequiredBilm(name=name, fingerprint=model.fingerprint(), num_layers=config.num_layers, dim=config.dim)


def load_required(required: RequiredBilm, *, inside: Path | None, given: str | None, device: torch.device) -> Model:
    """The biLM that a task model was trained with: the one inside its folder, the one given, or by the name it had."""
    name = given or (str(inside) if inside is not None else required.name)
    with error_context(f"the biLM {name}"):
        model = load(name, device=device)
        if model.fingerprint() != required.fingerprint:
            raise InputError(
                f"is not the one this model was trained with, which was {required.name} (sha256 "
                f"{required.fingerprint[:12]}…, and this is {model.fingerprint()[:12]}…); give that one with --elmo"
            )
    return model


def fine_tune(
    model: Model,
    sentences: Sequence[Sequence[str]],
    folder: Path,
    options: ElmoOptions,
    *,
    token_style: TokenStyle,
    device: torch.device,
) -> Iterator[str]:
    """Train a biLM as a language model on a task's sentences; its folder is `folder / "run" / "model"` afterwards.

    Yields what there is to tell, the perplexity before and after last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Embedder(model).tokenizer
    text = folder / "text.txt"
    with text.open("w", encoding="utf-8", newline="\n") as file:
        for tokens in sentences:
            words = tokens if token_style == "moses" else convert_tokens(tokens, tokenizer, style=token_style).words
            # A blank inside of a word would make it two.
            file.write(" ".join(word.replace(" ", "\u00a0") for word in words) + "\n\n")
    corpus = folder / "corpus"
    if not corpus.is_dir():
        # The words of its own softmax, which it has learnt to predict, where it has one.
        vocabulary = None
        if model.vocabulary is not None:
            vocabulary = folder / "vocabulary.txt"
            vocabulary.write_text(
                "".join(f"{word}\n" for word in model.vocabulary.words), encoding="utf-8", newline="\n"
            )
        prepare([text], corpus, input_format="tokenized", vocabulary=vocabulary, heldout=HELDOUT_SHARE, workers=1)
    run = folder / "run"
    recipe = {"training.epochs": options.fine_tuning_epochs}
    for event in pretrain(corpus, run, recipe, init=model, resume=(run / "recipe.json").is_file(), device=device):
        if isinstance(event, Finished) and event.heldout is not None and event.baseline is not None:
            yield (
                f"fine-tuned {model.card.name or model.card.source} on {len(sentences):,} sentences of the task: "
                f"perplexity {event.baseline.score:.1f} before, {event.heldout.score:.1f} after"
            )


def load_fine_tuned(folder: Path, before: Model, *, device: torch.device) -> Model:
    """What `fine_tune` made; it wants its text as the biLM before did."""
    model = load(folder / "run" / "model", device=device)
    return replace(model, card=replace(model.card, text=before.card.text))
