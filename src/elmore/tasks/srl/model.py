"""The model of semantic roles: a highway LSTM that reads a sentence for one of its predicates.

    x = [vectors of the token; embedding of whether it is the predicate]
    log p(tags) = log-softmax(linear(highway LSTM(x)))         a BIO tag for each token

Raw text has no predicates marked, so the model has a tagger for them beside it: a biLSTM over the same vectors, trained
on the same sentences, those without a predicate too. It sends no gradient into the vectors: roles are learnt from them
as if it were not there, but for its share in the norm by which gradients are clipped.

B sentences, R predicates, T tokens, K tags.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.fields import checked_field
from elmore.nn.devices import send
from elmore.tasks.core.config import TaskOptions
from elmore.tasks.core.task import Batch, TaskModel
from elmore.tasks.inputs.embedder import EmbeddedTokens, TokenEmbedder
from elmore.tasks.modules.crf import viterbi
from elmore.tasks.modules.ensembling import mean_of_probabilities
from elmore.tasks.readers.tag_schemes import allowed_transitions
from elmore.tasks.srl.highway_lstm import AlternatingHighwayLstm
from elmore.tasks.tagging.sequence_tagger import SequenceTagger, decode_together

TOKENS_OF_FRAMES = 2**15  # that are labelled together when predicting


@dataclass(frozen=True, kw_only=True)
class RoleLabelerOptions(TaskOptions):
    """The sizes of the model."""

    hidden: int = checked_field(300, at_least=1)  # units of each layer
    layers: int = checked_field(8, at_least=1)
    dropout: float = checked_field(0.1, at_least=0, at_most=0.95)  # recurrent, in every layer
    predicate_dim: int = checked_field(100, at_least=1)  # of the embedding that tells the predicate from the rest
    # biLSTM layers of the tagger that finds predicates in raw text
    predicate_hidden: tuple[int, ...] = checked_field((100,), at_least=1)


class RoleExample(NamedTuple):
    """A sentence and one of its predicates; or one without any; or of raw text, where nobody has marked them."""

    tokens: Sequence[str]
    predicate: int | None = None  # its token
    predicates: Sequence[int] | None = None  # all of the sentence; None in raw text
    tags: Sequence[str] = ()  # BIO
    offsets: Sequence[tuple[int, int]] = ()  # of raw text: the characters of each token
    place: str = ""  # file and line, for complaints

    @property
    def stands_for_sentence(self) -> bool:
        """Of the examples that a sentence gives, one does, where sentences are counted."""
        return not self.predicates or self.predicate == self.predicates[0]


class PredictedFrame(NamedTuple):
    """A predicate, and the tags of its arguments."""

    predicate: int
    tags: list[str]


class PredictedRoles(NamedTuple):
    """What a model says of a sentence."""

    frames: list[PredictedFrame]  # of the predicate that was given, or of those that were found
    predicates: list[int]  # that the model would have found


class RoleLabeler(TaskModel[RoleExample, PredictedRoles]):
    """Tags the arguments of a predicate, and finds predicates."""

    starts: Tensor
    transitions: Tensor
    ends: Tensor

    def __init__(self, options: RoleLabelerOptions, tags: Sequence[str], embedder: TokenEmbedder) -> None:
        super().__init__()
        self.embedder = embedder
        self.tags = tuple(tags)
        self._numbers = {tag: number for number, tag in enumerate(tags)}
        self.is_predicate = nn.Embedding(2, options.predicate_dim)
        self.encoder = AlternatingHighwayLstm(
            embedder.input_dim + options.predicate_dim, options.hidden, layers=options.layers, dropout=options.dropout
        )
        self.output = nn.Linear(options.hidden + embedder.output_dim, len(tags))
        nn.init.orthogonal_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        self.predicate_tagger = SequenceTagger(
            embedder.input_dim, 2, hidden=options.predicate_hidden, dropout=options.dropout
        )
        allowed = allowed_transitions(tags, "bio")
        for name, one in zip(("transitions", "starts", "ends"), allowed, strict=True):
            scores = torch.zeros(one.shape).masked_fill(~torch.from_numpy(one), -torch.inf)
            # They follow from the tags, which are saved with the model.
            self.register_buffer(name, scores, persistent=False)

    def loss(self, batch: Batch[RoleExample]) -> Tensor:
        """The mean over predicates of the sum over tokens, and beside it the same of the tagger of predicates."""
        (inputs,) = batch.inputs
        vectors = self.embedder(inputs)
        asked = [(row, e.predicate) for row, e in enumerate(batch.examples) if e.predicate is not None]
        is_predicate, shares = np.zeros(inputs.mask.shape, dtype=np.int64), []
        for row, example in enumerate(batch.examples):
            is_predicate[row, list(example.predicates or ())] = 1
            shares.append(1 / max(len(example.predicates or ()), 1))  # a sentence counts once, as often as it comes
        device = inputs.mask.device
        found = self._finding(vectors, inputs.lengths)
        finding = self.predicate_tagger.loss(found, send(torch.from_numpy(is_predicate), device), inputs.mask)
        loss = (finding * send(torch.tensor(shares), device)).mean() + self.embedder.penalty()
        if asked:
            rows = send(torch.tensor([row for row, _ in asked]), device)
            chances = self._chances(vectors, asked, rows, inputs.lengths)
            # A sentence without a predicate has no tags, and stands for O here; its row is not looked at.
            tags = (example.tags or ["O"] * len(example.tokens) for example in batch.examples)
            gold = inputs.spread([self._numbers[tag] for own in tags for tag in own]).index_select(0, rows)
            chosen = chances.gather(2, gold.unsqueeze(2)).squeeze(2)
            loss = loss - chosen.masked_fill(~inputs.mask.index_select(0, rows), 0).sum() / len(asked)
        return loss

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[RoleExample]]) -> list[PredictedRoles]:
        first, batch = members[0], batches[0]
        (inputs,) = batch.inputs
        vectors = [one.embedder(own.inputs[0]) for one, own in zip(members, batches, strict=True)]
        finding = [one._finding(own, inputs.lengths) for one, own in zip(members, vectors, strict=True)]
        found = decode_together([one.predicate_tagger for one in members], finding, inputs.mask)
        predicates = [[token for token, is_one in enumerate(row) if is_one] for row in found]
        asked: list[tuple[int, int]] = []
        for row, example in enumerate(batch.examples):
            given = [] if example.predicate is None else [example.predicate]
            asked += [(row, token) for token in (predicates[row] if example.predicates is None else given)]
            for token in given:
                if not 0 <= token < len(example.tokens):
                    where = example.place or "an example"
                    raise InputError(
                        f"{where}: its predicate is token {token}, from 0, of a sentence of {len(example.tokens)}"
                    )
        frames: list[list[PredictedFrame]] = [[] for _ in batch.examples]
        # A sentence is read once for each of its predicates, of which raw text may have hundreds.
        at_once = max(TOKENS_OF_FRAMES // max(inputs.mask.shape[1], 1), 1)
        for some in (asked[start : start + at_once] for start in range(0, len(asked), at_once)):
            rows = send(torch.tensor([row for row, _ in some]), inputs.mask.device)
            each = (one._chances(own, some, rows, inputs.lengths) for one, own in zip(members, vectors, strict=True))
            chances, mask = mean_of_probabilities(list(each)), inputs.mask.index_select(0, rows)
            best = viterbi(chances, mask, start=first.starts, transitions=first.transitions, end=first.ends)
            for (row, token), tags in zip(some, best, strict=True):
                frames[row].append(PredictedFrame(token, [first.tags[number] for number in tags]))
        return [PredictedRoles(*one) for one in zip(frames, predicates, strict=True)]

    def _finding(self, vectors: EmbeddedTokens, lengths: Sequence[int]) -> Tensor:  # (B, T, 2)
        emissions: Tensor = self.predicate_tagger(vectors.input.detach(), lengths)
        return emissions

    def _chances(
        self, vectors: EmbeddedTokens, asked: Sequence[tuple[int, int]], rows: Tensor, lengths: Sequence[int]
    ) -> Tensor:
        """(R, T, K) the logarithms of the probabilities of all tags, for each row and predicate that is asked for.

        `rows` (R,) are the rows once more, on the device.
        """
        tokens = torch.tensor([token for _, token in asked])
        flags = send(nn.functional.one_hot(tokens, vectors.input.shape[1]), rows.device)
        x = torch.cat([vectors.input.index_select(0, rows), self.is_predicate(flags)], dim=2)
        x = self.encoder(x, [lengths[row] for row, _ in asked])
        if vectors.output is not None:
            x = torch.cat([x, vectors.output.index_select(0, rows).to(x.dtype)], dim=2)
        emissions: Tensor = self.output(x)
        return emissions.to(torch.promote_types(emissions.dtype, torch.float32)).log_softmax(dim=2)
