"""Parts of speech: a tag for every token.

The model is a linear probe on one layer of a biLM (`[task] hidden = []`), as in section 5.3 of Peters et al., 2018, or
a biLSTM tagger. Scored by accuracy over all tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.labels import check_some_known, unseen_labels
from elmore.tasks.core.results import TokenizedText, token_fields
from elmore.tasks.core.task import Dataset, Labels, Task
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.metrics.scores import Accuracy
from elmore.tasks.tagging.model import TaggedTokens, TaggerModel, TaggerOptions, tagged_from_text
from elmore.tasks.tagging.reader import read_tagged


@dataclass(frozen=True, kw_only=True)
class PosOptions(TaggerOptions):
    """[task] of parts of speech."""

    crf: bool = False
    tag_column: int | str = "upos"  # upos or xpos of CoNLL-U; for other column files a number, -1 for the last
    word_column: int | None = None  # None: detected


@dataclass(frozen=True, kw_only=True)
class PosRecipe(TaskRecipe):
    """Recipe of parts of speech."""

    task: PosOptions = PosOptions()


@dataclass(frozen=True)
class TaggedText(TokenizedText):
    """A text, its tokens, and the part of speech of each."""

    tags: tuple[str, ...]

    def __str__(self) -> str:
        """One sentence per line, each token followed by a slash and its tag."""
        return "\n".join(
            " ".join(
                f"{self.text[start:end]}/{tag}"
                for (start, end), tag in zip(self.offsets[sentence], self.tags[sentence], strict=True)
            )
            for sentence in self.sentence_slices()
        )


def read(paths: Sequence[str | Path], options: PosOptions, *, to_train: bool) -> Dataset[TaggedTokens]:  # noqa: ARG001
    """Sentences of CoNLL-U or of other column files."""
    sentences = read_tagged(paths, tag_column=options.tag_column, word_column=options.word_column)
    return Dataset([TaggedTokens(one.tokens, one.tags, location=f"{one.source}, line {one.line}") for one in sentences])


def _tags(examples: Sequence[TaggedTokens]) -> list[str]:
    return [tag for example in examples for tag in example.tags]


def check(examples: Sequence[TaggedTokens], known: Labels) -> None:
    check_some_known(_tags(examples), known["tags"], examples[0].location)


def build(options: PosOptions, labels: Labels, embedder: TokenEmbedder) -> TaggerModel:
    return TaggerModel(options, labels["tags"], embedder)


def result(
    text: str,
    examples: Sequence[TaggedTokens],
    predictions: Sequence[Sequence[str]],
    labels: Labels,  # noqa: ARG001
) -> TaggedText:
    return TaggedText(text, **token_fields(examples), tags=tuple(tag for tags in predictions for tag in tags))


POS: Task[TaggedTokens, list[str]] = Task(
    name="pos",
    summary="parts of speech",
    recipe=PosRecipe,
    read=read,
    sentences=lambda example: (example.tokens,),
    labels=lambda examples, options: {"tags": sorted(set(_tags(examples)))},  # noqa: ARG005
    label_types={"tags": tuple[str, ...]},
    check=check,
    unseen=lambda examples, known: unseen_labels(_tags(examples), known["tags"], "token"),
    build=build,
    metric=Accuracy(gold=lambda example: example.tags, predicted=lambda tags: tags),
    ensemble_fields=("crf",),
    parse=tagged_from_text,
    result=result,
)
