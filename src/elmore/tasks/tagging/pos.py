"""Parts of speech: a tag for every token.

A linear probe on one layer of a biLM (`[task] hidden = []`), as in the paper's section 5.3, or a biLSTM tagger. Scored
by accuracy over all tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmore.errors import InputError
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.task import Dataset, Labels, Task
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.metrics.accuracy import accuracy
from elmore.tasks.metrics.score import Counts, Score
from elmore.tasks.tagging.model import TaggedTokens, TaggerModel, TaggerOptions, parse_sentences
from elmore.tasks.tagging.reader import read_tagged


@dataclass(frozen=True, kw_only=True)
class PosOptions(TaggerOptions):
    """[task] of parts of speech."""

    crf: bool = False
    tag_column: int | str = "upos"  # upos or xpos of CoNLL-U; a number for other column files, -1 for the last
    word_column: int | None = None  # None finds out


@dataclass(frozen=True, kw_only=True)
class PosRecipe(TaskRecipe):
    """How parts of speech are learnt."""

    task: PosOptions = PosOptions()


@dataclass(frozen=True)
class TaggedText:
    """A text, its tokens, and the part of speech of each."""

    text: str
    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]  # of each token, the characters of the text
    sentences: tuple[int, ...]  # how many tokens each has

    def __str__(self) -> str:
        """A sentence a line, each token with its tag behind a slash."""
        lines, first = [], 0
        for length in self.sentences:
            tokens = zip(self.offsets[first : first + length], self.tags[first : first + length], strict=True)
            lines.append(" ".join(f"{self.text[start:end]}/{tag}" for (start, end), tag in tokens))
            first += length
        return "\n".join(lines)


def read(paths: Sequence[str | Path], options: PosOptions, *, to_train: bool) -> Dataset[TaggedTokens]:  # noqa: ARG001
    sentences = read_tagged(paths, tag_column=options.tag_column, word_column=options.word_column)
    return Dataset(
        [
            TaggedTokens(sentence.tokens, sentence.tags, place=f"{sentence.source}, line {sentence.line}")
            for sentence in sentences
        ]
    )


def labels(examples: Sequence[TaggedTokens], options: PosOptions) -> Labels:  # noqa: ARG001  # every task has them
    return {"tags": sorted({tag for example in examples for tag in example.tags})}


def check(examples: Sequence[TaggedTokens], known: Labels) -> None:
    """Refuse sentences with tags that the training data did not have."""
    for example in examples:
        for token, tag in zip(example.tokens, example.tags, strict=True):
            if tag not in known["tags"]:
                raise InputError(
                    f"{example.place}: {token!r} has the tag {tag!r}, which the training data does not have; it has "
                    f"{', '.join(known['tags'])}"
                )


def build(options: PosOptions, labels: Labels, embedder: TokenEmbedder) -> TaggerModel:
    return TaggerModel(options, labels["tags"], embedder)


def score(examples: Sequence[TaggedTokens], predictions: Sequence[Sequence[str]]) -> Score:
    gold = [tag for example in examples for tag in example.tags]
    return accuracy(gold, [tag for tags in predictions for tag in tags])


def counts(example: TaggedTokens, tags: Sequence[str]) -> Counts:
    right = sum(gold == tag for gold, tag in zip(example.tags, tags, strict=True))
    return Counts(gold=len(tags), found=len(tags), correct=right)


def result(
    text: str,
    examples: Sequence[TaggedTokens],
    predictions: Sequence[Sequence[str]],
    labels: Labels,  # noqa: ARG001
) -> TaggedText:
    return TaggedText(
        text,
        tokens=tuple(token for example in examples for token in example.tokens),
        tags=tuple(tag for tags in predictions for tag in tags),
        offsets=tuple(span for example in examples for span in example.offsets),
        sentences=tuple(len(example.tokens) for example in examples),
    )


POS: Task[TaggedTokens, list[str]] = Task(
    name="pos",
    summary="parts of speech",
    recipe=PosRecipe,
    read=read,
    sentences=lambda example: (example.tokens,),
    labels=labels,
    label_types={"tags": tuple[str, ...]},
    check=check,
    build=build,
    score=score,
    counts=counts,
    ensemble_fields=("crf",),
    parse=parse_sentences,
    result=result,
)
