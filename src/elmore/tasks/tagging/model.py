"""What taggers share: sentences whose every token has a tag, the model, and how raw text is read.

B sentences, T tokens, K tags.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from torch import Tensor

from elmore.fields import checked_field
from elmore.tasks.core.config import TaskOptions
from elmore.tasks.core.task import Batch, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.token_batch import TokenInputs
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.modules.crf import AllowedTransitions, LinearChainCrf
from elmore.tasks.tagging.sequence_tagger import SequenceTagger, decode_together


class TaggedTokens(NamedTuple):
    """A sentence and its tags, or of raw text the places of its tokens."""

    tokens: Sequence[str]
    tags: Sequence[str] = ()
    offsets: Sequence[tuple[int, int]] = ()  # of raw text: the characters of each token
    place: str = ""  # file and line, for complaints


@dataclass(frozen=True, kw_only=True)
class TaggerOptions(TaskOptions):
    """[task] of a tagger."""

    # of each biLSTM layer and direction; none at all makes a linear probe
    hidden: tuple[int, ...] = checked_field((200, 200), at_least=1)
    dropout: float = checked_field(0.5, at_least=0, at_most=0.95)  # on the inputs of every layer
    crf: bool = True


class TaggerModel(TaskModel[TaggedTokens, list[str]]):
    """Tags every token of a sentence."""

    def __init__(
        self,
        options: TaggerOptions,
        tags: Sequence[str],
        embedder: TokenEmbedder,
        transitions: AllowedTransitions | None = None,
    ) -> None:
        super().__init__()
        self.embedder = embedder
        self.tags = tuple(tags)
        self._numbers = {tag: number for number, tag in enumerate(tags)}
        self.tagger = SequenceTagger(
            embedder.input_dim,
            len(tags),
            hidden=options.hidden,
            extra_dim=embedder.output_dim,
            dropout=options.dropout,
            output_dropout=options.dropout,
            crf=LinearChainCrf(len(tags), transitions_allowed=transitions) if options.crf else None,
        )

    def loss(self, batch: Batch[TaggedTokens]) -> Tensor:
        (inputs,) = batch.inputs
        gold = inputs.spread([self._numbers[tag] for example in batch.examples for tag in example.tags])
        losses = self.tagger.loss(self._emissions(inputs), gold, inputs.mask)
        return losses.mean() + self.embedder.penalty()

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[TaggedTokens]]) -> list[list[str]]:
        emissions = [one._emissions(batch.inputs[0]) for one, batch in zip(members, batches, strict=True)]
        found = decode_together([one.tagger for one in members], emissions, batches[0].inputs[0].mask)
        return [[members[0].tags[number] for number in row] for row in found]

    def _emissions(self, inputs: TokenInputs) -> Tensor:  # (B, T, K)
        vectors = self.embedder(inputs)
        emissions: Tensor = self.tagger(vectors.input, inputs.lengths, vectors.output)
        return emissions


def parse_sentences(text: str, tokenizer: StyledTokenizer) -> list[TaggedTokens]:
    """The sentences of a raw text."""
    return [TaggedTokens(cut.tokens, offsets=cut.offsets) for cut in tokenizer.sentences(text)]
