"""A sequence tagger: biLSTM layers, or none, and a linear layer to the scores of each token's tags.

Lample et al., 2016, with a CRF. Without a CRF and without a biLSTM it is a linear probe.
B sentences, T tokens, K tags, D size of the input, E size of extra vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.fields import checked_field
from elmore.tasks.core.config import TaskOptions
from elmore.tasks.core.task import Batch, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.token_batch import TokenInputs
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.modules.crf import AllowedTransitions, LinearChainCrf
from elmore.tasks.modules.ensembling import mean_of_probabilities, mean_scores
from elmore.tasks.modules.rnn import BiLstm, VariationalDropout, append_extra


class TaggedTokens(NamedTuple):
    """A sentence and its tags, or a sentence of raw text and the offsets of its tokens."""

    tokens: Sequence[str]
    tags: Sequence[str] = ()
    offsets: Sequence[tuple[int, int]] = ()  # of raw text: the characters of each token
    location: str = ""  # file and line, for messages


@dataclass(frozen=True, kw_only=True)
class TaggerOptions(TaskOptions):
    """[task] of a tagger."""

    # Units of each biLSTM layer and direction; an empty list is a linear probe.
    hidden: tuple[int, ...] = checked_field((200, 200), at_least=1)
    dropout: float = checked_field(0.5, at_least=0, at_most=0.95)  # on the inputs of every layer
    crf: bool = True


class SequenceTagger(nn.Module):
    """Scores of tags for each token, the loss of gold tags, and the best tags.

    `hidden` has the units of each biLSTM in each direction, from the lowest layer up; `()` is a linear probe.
    `extra_dim` is the size of vectors that are concatenated to the last biLSTM's output. `dropout` is on the input of
    every biLSTM, `output_dropout` on the input of the linear layer; both are variational.

    >>> tagger = SequenceTagger(8, num_tags=3, hidden=(4, 2), crf=LinearChainCrf(3))
    >>> mask = torch.tensor([[True, True, True], [True, False, False]])
    >>> emissions = tagger(torch.ones(2, 3, 8), [3, 1])
    >>> emissions.shape, tagger.loss(emissions, torch.zeros(2, 3, dtype=torch.int64), mask).shape
    (torch.Size([2, 3, 3]), torch.Size([2]))
    >>> [len(tags) for tags in tagger.decode(emissions, mask)]
    [3, 1]
    """

    def __init__(
        self,
        input_dim: int,
        num_tags: int,
        *,
        hidden: Sequence[int] = (200, 200),
        extra_dim: int = 0,
        dropout: float = 0.5,
        output_dropout: float = 0.0,
        crf: LinearChainCrf | None = None,
    ) -> None:
        super().__init__()
        if crf is not None and crf.num_tags != num_tags:
            raise InputError(f"the tagger has {num_tags} tags and its CRF {crf.num_tags}; both need the same number")
        self.extra_dim = extra_dim
        self.encoders = nn.ModuleList()
        size = input_dim
        for units in hidden:
            self.encoders.append(BiLstm(size, units, input_dropout=dropout))
            size = 2 * units
        self.output_dropout = VariationalDropout(output_dropout)
        self.emissions = nn.Linear(size + extra_dim, num_tags)
        nn.init.xavier_uniform_(self.emissions.weight)
        nn.init.zeros_(self.emissions.bias)
        self.crf = crf

    def forward(
        self, x: Tensor, lengths: Sequence[int] | Tensor, extra: Tensor | None = None
    ) -> Tensor:  # (B, T, D), B on the CPU, (B, T, E) -> (B, T, K)
        """The score of each tag at each token, before any softmax."""
        for encoder in self.encoders:
            x = encoder(x, lengths)
        emissions: Tensor = self.emissions(self.output_dropout(append_extra(x, extra, self.extra_dim)))
        return emissions

    def loss(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:  # (B, T, K), 2 x (B, T) -> (B,)
        """For each sentence, minus the log-probability of its tags; without a CRF, a sum over its tokens."""
        if self.crf is not None:
            return -self.crf.log_likelihood(emissions, tags, mask)
        log_probs = emissions.to(torch.promote_types(emissions.dtype, torch.float32)).log_softmax(dim=2)
        chosen = log_probs.gather(2, tags.masked_fill(~mask, 0).unsqueeze(2)).squeeze(2)
        return -chosen.masked_fill(~mask, 0).sum(dim=1)

    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:  # (B, T, K), (B, T)
        """The best tags of each sentence: by the CRF, or token by token; ties go to the lowest tag."""
        return ensemble_decode([self], [emissions], mask)


@torch.no_grad()
def ensemble_decode(
    taggers: Sequence[SequenceTagger], emissions: Sequence[Tensor], mask: Tensor
) -> list[list[int]]:  # (B, T, K) of each, (B, T)
    """The best tags of several taggers: by the means of their CRFs' scores, or of their probabilities of each token."""
    crfs = [tagger.crf for tagger in taggers if tagger.crf is not None]
    if len(crfs) == len(taggers):
        return crfs[0].decode(mean_scores(emissions), mask, others=crfs[1:])
    if crfs:
        raise InputError("some of the taggers have a CRF and some have none; their scores cannot be averaged")
    best = mean_of_probabilities(emissions).argmax(dim=2).cpu()
    return [tags[:length].tolist() for tags, length in zip(best, mask.sum(dim=1).tolist(), strict=True)]


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
        self._tag_ids = {tag: number for number, tag in enumerate(tags)}
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
        gold = inputs.scatter_to_tokens([self._tag_ids[tag] for example in batch.examples for tag in example.tags])
        losses = self.tagger.loss(self._emissions(inputs), gold, inputs.mask)
        return losses.mean() + self.embedder.penalty()

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[TaggedTokens]]) -> list[list[str]]:
        emissions = [model._emissions(batch.inputs[0]) for model, batch in zip(members, batches, strict=True)]
        best = ensemble_decode([model.tagger for model in members], emissions, batches[0].inputs[0].mask)
        return [[members[0].tags[number] for number in row] for row in best]

    def _emissions(self, inputs: TokenInputs) -> Tensor:  # (B, T, K)
        vectors = self.embedder(inputs)
        emissions: Tensor = self.tagger(vectors.input, inputs.lengths, vectors.output)
        return emissions


def tagged_from_text(text: str, tokenizer: StyledTokenizer) -> list[TaggedTokens]:
    """The sentences of a raw text."""
    return [TaggedTokens(sentence.tokens, offsets=sentence.offsets) for sentence in tokenizer.sentences(text)]
