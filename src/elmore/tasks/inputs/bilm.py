"""The biLM of a task model: load it, fine-tune it on the task's text, or train it with the task.

A task model requires the biLM that it was trained with. Its card stores the fingerprint of that biLM.
"""

import hashlib
import shutil
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmore.corpus.prepare import prepare
from elmore.embedding.sentences import pool_tokens
from elmore.errors import FormatError, InputError, NotFound
from elmore.files.atomic_files import make_folder
from elmore.model import Model, load
from elmore.nn.pretrained import PretrainedBiLM, WordBatch
from elmore.pretraining.pretrain import PretrainingFinished, pretrain
from elmore.sources.urls import without_credentials
from elmore.tasks.core.config import ElmoOptions
from elmore.tasks.core.model_folder import CARD_FILE, BilmReference
from elmore.text.style import TokenStyle
from elmore.text.token_styles import retokenize
from elmore.text.tokenizer import Tokenizer
from elmore.training.events import Message, Progressed, RunEvent, Stopped
from elmore.training.loop import SECONDS_BETWEEN_OUTPUTS
from elmore.training.run import Run
from elmore.training.run_folder import RunFolder

TEXT = "text.txt"  # in the folder of the corpus that is prepared from it
HELDOUT_SHARE = 0.05  # of the task's sentences, for the perplexity before and after fine-tuning


def bilm_reference(model: Model, name: str) -> BilmReference:
    """The record of a biLM in the models that are trained with it."""
    config, fingerprint = model.config, model.fingerprint()
    name = without_credentials(name)
    return BilmReference(name=name, fingerprint=fingerprint, num_layers=config.num_layers, dim=config.dim)


def load_required(required: BilmReference, *, inside: Path | None, given: str | None) -> Model:
    """Load the biLM that a task model was trained with: from `given`, from the model's folder, or by its name."""
    name = given or (str(inside) if inside is not None else required.name)
    try:
        model = load(name)
    except NotFound as missing:
        raise NotFound(f"the biLM of this model is missing: {missing}; give its location with --elmo") from None
    if model.fingerprint() != required.fingerprint:
        raise InputError(
            f"the biLM {name} (sha256 {model.fingerprint()[:12]}…) is not the biLM that this model was trained with, "
            f"{required.name} (sha256 {required.fingerprint[:12]}…); give that biLM with --elmo"
        )
    for field, value in (("num_layers", model.config.num_layers), ("dim", model.config.dim)):
        if getattr(required, field) != value:
            raise FormatError(f"{CARD_FILE}: elmo.{field} is {getattr(required, field)}, but {name} has {value}")
    return model


def fine_tune(
    model: Model,
    sentences: Sequence[Sequence[str]],
    folder: Path,
    options: ElmoOptions,
    *,
    token_style: TokenStyle,
    device: torch.device,
    seed: int = 1,
    stop_requested: Callable[[], bool] = lambda: False,
) -> Generator[Message, None, Model | Stopped]:
    """Train a biLM as a language model on a task's sentences, in `folder`. Returns the biLM, or `Stopped`.

    Yields messages with the progress, and with the perplexity before and after. An interrupted call is resumed.
    """
    text = _corpus_text(sentences, Tokenizer(model.card.text), token_style)
    # Each text has a separate corpus: an earlier call may have had other examples.
    corpus_folder = folder / hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    corpus, run = corpus_folder / "corpus", RunFolder(corpus_folder / "run")
    if not run.model.is_dir():
        if not corpus.is_dir():
            _prepare(text, model, corpus)
        if run.exists:
            events = pretrain(corpus, run.path, resume=True, device=device)
        else:
            recipe = {"training.epochs": options.fine_tuning_epochs, "training.seed": seed}
            events = pretrain(corpus, run.path, recipe, init=model, device=device)
        what = f"{model.card.name or model.card.source} on {len(sentences):,} sentences of the task"
        stopped = yield from _messages(events, what, stop_requested)
        if stopped is not None:
            return stopped
    # Checkpoints are several times the size of the model, and no longer needed.
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    tuned = load(run.model)
    # The tokenizer of the pretrained biLM: the corpus has tokenized text.
    return tuned.with_card(replace(tuned.card, text=model.card.text))


def has_unfinished_fine_tuning(folder: Path) -> bool:
    """Whether a folder contains only files of `fine_tune`."""
    return folder.is_dir() and all((path / TEXT).is_file() for path in folder.iterdir())


def _messages(
    events: Run[RunEvent], what: str, stop_requested: Callable[[], bool]
) -> Generator[Message, None, Stopped | None]:
    """Run pretraining, and yield messages with its progress. Returns `Stopped` after a stop request."""
    shown = monotonic()
    for event in events:
        if stop_requested():
            events.stop()
        if isinstance(event, Stopped):
            return event
        if isinstance(event, Progressed) and monotonic() - shown > SECONDS_BETWEEN_OUTPUTS:
            yield Message(f"fine-tuning {what}: {event}")
            shown = monotonic()
        if isinstance(event, PretrainingFinished) and event.heldout is not None and event.baseline is not None:
            before, after = event.baseline.score, event.heldout.score
            yield Message(f"fine-tuned {what}: perplexity {before:.1f} before, {after:.1f} after")
    return None


def _corpus_text(sentences: Sequence[Sequence[str]], tokenizer: Tokenizer, token_style: TokenStyle) -> str:
    """The sentences, tokenized for the biLM. Each is a separate document, because their order may be random."""
    lines = []
    for tokens in sentences:
        words = tokens if token_style == "moses" else retokenize(tokens, tokenizer, style=token_style).words
        # A space inside a word would split the word.
        lines.append(" ".join(word.replace(" ", "\u00a0") for word in words))
    return "\n\n".join(lines) + "\n"


def _prepare(text: str, model: Model, corpus: Path) -> None:
    make_folder(corpus.parent)
    file = corpus.with_name(TEXT)
    file.write_text(text, encoding="utf-8", newline="\n")
    # The vocabulary of the biLM's softmax, if it has one.
    vocabulary = None
    if model.vocabulary is not None:
        vocabulary = corpus.with_name("vocabulary.txt")
        words = "".join(f"{word}\n" for word in model.vocabulary.words)
        vocabulary.write_text(words, encoding="utf-8", newline="\n")
    prepare([file], corpus, input_format="tokenized", vocabulary=vocabulary, heldout=HELDOUT_SHARE, workers=1)


class JointElmo(nn.Module):
    """A biLM that is trained with the task. Returns all layers of a batch of tokens in any token style."""

    def __init__(self, model: Model, *, token_style: TokenStyle, unfreeze_every: float) -> None:
        super().__init__()
        self._model = model.without_weights()
        self.network = PretrainedBiLM.from_model(model)
        self._tokenizer = Tokenizer(model.card.text)
        self._token_style = token_style
        self._unfreeze_every = unfreeze_every

    @property
    def model(self) -> Model:
        """The biLM as plain data, with a copy of the current weights."""
        return self.network.with_weights(self._model)

    def unfreeze(self, epoch: float) -> None:
        """Train the layers that are unfrozen after this many epochs: the top layer first, the word encoder last."""
        parts = [*reversed(list(self.network.lstm)), self.network.words]
        count = len(parts) if not self._unfreeze_every else 1 + int(epoch / self._unfreeze_every)
        for number, part in enumerate(parts):
            part.requires_grad_(requires_grad=number < count)

    def forward(self, sentences: Sequence[Sequence[str]]) -> Tensor:  # (B, T, L, dim)
        words = [list(sentence) for sentence in sentences]
        spans = None
        if self._token_style != "moses":
            converted = [retokenize(tokens, self._tokenizer, style=self._token_style) for tokens in sentences]
            words = [sentence.words for sentence in converted]
            spans = [sentence.word_spans for sentence in converted]
        layers = self.network.layers(WordBatch.of(words, self._model.word_indexer))  # (L, B, words, dim)
        if spans is None:
            return layers.movedim(0, 2)
        tokens = [pool_tokens(layers[:, row], row_spans).movedim(0, 1) for row, row_spans in enumerate(spans)]
        return pad_sequence(tokens, batch_first=True)
