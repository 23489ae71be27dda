"""The model of semantic roles: a highway LSTM over a sentence, for one of its predicates (He et al., 2017).

    x = [vectors of the token; embedding of whether it is the predicate]
    log p(tags) = log-softmax(linear(highway LSTM(x)))         a BIO tag for each token

The layers of the LSTM run in alternating directions: the first forward, the second backward over the output of the
first, and so on; nothing is concatenated. Recurrent dropout is variational: one mask for a sentence and layer, on the
output, which is also the recurrent input.

In raw text predicates are not marked, so the model also has a tagger of predicates: a biLSTM over the same vectors,
trained on the same sentences, including sentences without a predicate. It sends no gradient into the vectors; its only
effect on the training of roles is its share of the gradient norm that clipping uses.

B sentences, R predicates, T tokens, N tokens of all sentences, K tags, D size of the input, H units.
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
from elmore.tasks.modules.rnn import packing_of
from elmore.tasks.readers.tag_schemes import allowed_transitions
from elmore.tasks.srl.highway_recurrence import GATES, highway_recurrence
from elmore.tasks.tagging.model import SequenceTagger, ensemble_decode

MAX_FRAME_TOKENS = 2**15  # tokens of the sentences whose predicates are labeled in one step of prediction


@dataclass(frozen=True, kw_only=True)
class RoleLabelerOptions(TaskOptions):
    """The sizes of the model."""

    hidden: int = checked_field(300, at_least=1)  # units of each layer
    layers: int = checked_field(8, at_least=1)
    dropout: float = checked_field(0.1, at_least=0, at_most=0.95)  # recurrent, in every layer
    predicate_dim: int = checked_field(100, at_least=1)  # of the embedding that marks the predicate
    # biLSTM layers of the tagger of predicates
    predicate_hidden: tuple[int, ...] = checked_field((100,), at_least=1)


class RoleExample(NamedTuple):
    """A sentence and one of its predicates, a sentence without predicates, or a sentence of raw text."""

    tokens: Sequence[str]
    predicate: int | None = None  # its token
    predicates: Sequence[int] | None = None  # all of the sentence; None in raw text
    tags: Sequence[str] = ()  # BIO
    offsets: Sequence[tuple[int, int]] = ()  # of raw text: the characters of each token
    location: str = ""  # file and line, for messages

    @property
    def is_first_of_sentence(self) -> bool:
        """Whether this is the first of the examples of its sentence."""
        return not self.predicates or self.predicate == self.predicates[0]


class PredictedFrame(NamedTuple):
    """A predicate, and the tags of its arguments."""

    predicate: int
    tags: list[str]


class PredictedRoles(NamedTuple):
    """The prediction for a sentence."""

    frames: list[PredictedFrame]  # of the given predicate, or in raw text of the predicted ones
    predicates: list[int]  # the predicates that the model predicts


class AlternatingHighwayLstm(nn.Module):
    """Layers of highway LSTMs in alternating directions.

    Initial weights are orthogonal, gate by gate; the bias of the forget gate is 1, other biases are 0.

    >>> AlternatingHighwayLstm(4, 3, layers=2)(torch.ones(2, 5, 4), [5, 0]).shape
    torch.Size([2, 5, 3])
    """

    def __init__(self, input_dim: int, hidden: int, *, layers: int = 8, dropout: float = 0.0) -> None:
        super().__init__()
        self.output_dim = hidden
        self.dropout = dropout
        self.layers = nn.ModuleList(
            HighwayLstmLayer(hidden if number else input_dim, hidden) for number in range(layers)
        )

    def forward(self, x: Tensor, lengths: Sequence[int] | Tensor) -> Tensor:  # (B, T, D), B on the CPU -> (B, T, H)
        """The outputs of the last layer at each token; zeros at padding."""
        packing = packing_of(tuple(torch.as_tensor(lengths).tolist()), width=x.shape[1], device=x.device)
        packed = packing.pack(x)
        sizes, tokens = packed.batch_sizes.tolist(), packed.data
        # A backward layer is a forward layer over reversed sentences.
        reversal = packing.reversed_rows()
        for number, layer in enumerate(self.layers):
            if number:
                tokens = tokens.index_select(0, reversal)
            tokens = layer(tokens, sizes, dropout=self.dropout if self.training else 0.0)
        if len(self.layers) % 2 == 0:
            tokens = tokens.index_select(0, reversal)
        return packing.pad(packed._replace(data=tokens))


class HighwayLstmLayer(nn.Module):
    """One forward layer, over packed sentences."""

    def __init__(self, input_dim: int, hidden: int) -> None:
        super().__init__()
        # Of the gates o, t, i, f, g, and of the input that the highway carries past the cell.
        self.input_weight = nn.Parameter(torch.empty((GATES + 1) * hidden, input_dim))
        self.recurrent_weight = nn.Parameter(torch.empty(GATES * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(GATES * hidden))
        with torch.no_grad():
            for weight in (self.input_weight, self.recurrent_weight):
                for gate in torch.split(weight, hidden):
                    nn.init.orthogonal_(gate)
            self.bias[3 * hidden : 4 * hidden] = 1

    def forward(
        self, tokens: Tensor, batch_sizes: Sequence[int], *, dropout: float = 0.0
    ) -> Tensor:  # (N, D) -> (N, H)
        products = nn.functional.linear(tokens, self.input_weight)  # of all steps at once
        gates, carried = products[:, : len(self.bias)], products[:, len(self.bias) :]
        dropout_mask = None
        if dropout and batch_sizes:
            dropout_mask = nn.functional.dropout(self.bias.new_ones(batch_sizes[0], carried.shape[1]), dropout)
        return highway_recurrence(gates + self.bias, carried, self.recurrent_weight, dropout_mask, batch_sizes)


class RoleLabeler(TaskModel[RoleExample, PredictedRoles]):
    """Tags the arguments of a predicate, and predicts predicates."""

    starts: Tensor
    transitions: Tensor
    ends: Tensor

    def __init__(self, options: RoleLabelerOptions, tags: Sequence[str], embedder: TokenEmbedder) -> None:
        super().__init__()
        self.embedder = embedder
        self.tags = tuple(tags)
        self._tag_ids = {tag: number for number, tag in enumerate(tags)}
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
        for name, mask in zip(("transitions", "starts", "ends"), allowed, strict=True):
            scores = torch.zeros(mask.shape).masked_fill(~torch.from_numpy(mask), -torch.inf)
            # Not saved: the tags determine them, and the tags are saved with the model.
            self.register_buffer(name, scores, persistent=False)

    def loss(self, batch: Batch[RoleExample]) -> Tensor:
        """The mean over predicates of the sum over tokens, plus the same loss of the tagger of predicates."""
        (inputs,) = batch.inputs
        vectors = self.embedder(inputs)
        pairs = [(row, e.predicate) for row, e in enumerate(batch.examples) if e.predicate is not None]
        is_predicate, weights = np.zeros(inputs.mask.shape, dtype=np.int64), []
        for row, example in enumerate(batch.examples):
            is_predicate[row, list(example.predicates or ())] = 1
            weights.append(1 / max(len(example.predicates or ()), 1))  # the examples of a sentence sum to 1
        device = inputs.mask.device
        logits = self._predicate_logits(vectors, inputs.lengths)
        predicate_losses = self.predicate_tagger.loss(logits, send(torch.from_numpy(is_predicate), device), inputs.mask)
        loss = (predicate_losses * send(torch.tensor(weights), device)).mean() + self.embedder.penalty()
        if pairs:
            rows = send(torch.tensor([row for row, _ in pairs]), device)
            log_probs = self._log_probs(vectors, pairs, rows, inputs.lengths)
            # A sentence without a predicate has no tags. O is a placeholder; `rows` does not select the sentence.
            tags = (example.tags or ["O"] * len(example.tokens) for example in batch.examples)
            tag_ids = [self._tag_ids[tag] for sentence in tags for tag in sentence]
            gold = inputs.scatter_to_tokens(tag_ids).index_select(0, rows)
            chosen = log_probs.gather(2, gold.unsqueeze(2)).squeeze(2)
            loss = loss - chosen.masked_fill(~inputs.mask.index_select(0, rows), 0).sum() / len(pairs)
        return loss

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[RoleExample]]) -> list[PredictedRoles]:
        first, batch = members[0], batches[0]
        (inputs,) = batch.inputs
        vectors = [model.embedder(own.inputs[0]) for model, own in zip(members, batches, strict=True)]
        logits = [model._predicate_logits(own, inputs.lengths) for model, own in zip(members, vectors, strict=True)]
        is_predicate = ensemble_decode([model.predicate_tagger for model in members], logits, inputs.mask)
        predicted = [[token for token, flag in enumerate(row) if flag] for row in is_predicate]
        pairs: list[tuple[int, int]] = []
        for row, example in enumerate(batch.examples):
            if example.predicates is None:
                pairs += [(row, token) for token in predicted[row]]
            elif example.predicate is not None:
                pairs.append((row, _checked_predicate(example, example.predicate)))
        frames: list[list[PredictedFrame]] = [[] for _ in batch.examples]
        # The LSTM runs over a sentence once for each of its predicates, and raw text may have hundreds of them.
        size = max(MAX_FRAME_TOKENS // max(inputs.mask.shape[1], 1), 1)
        for part in (pairs[start : start + size] for start in range(0, len(pairs), size)):
            rows = send(torch.tensor([row for row, _ in part]), inputs.mask.device)
            members_and_vectors = zip(members, vectors, strict=True)
            each = [model._log_probs(own, part, rows, inputs.lengths) for model, own in members_and_vectors]
            log_probs, mask = mean_of_probabilities(each), inputs.mask.index_select(0, rows)
            best = viterbi(log_probs, mask, start=first.starts, transitions=first.transitions, end=first.ends)
            for (row, token), tags in zip(part, best, strict=True):
                frames[row].append(PredictedFrame(token, [first.tags[number] for number in tags]))
        return [PredictedRoles(*roles) for roles in zip(frames, predicted, strict=True)]

    def _predicate_logits(self, vectors: EmbeddedTokens, lengths: Sequence[int]) -> Tensor:  # (B, T, 2)
        emissions: Tensor = self.predicate_tagger(vectors.input.detach(), lengths)
        return emissions

    def _log_probs(
        self, vectors: EmbeddedTokens, pairs: Sequence[tuple[int, int]], rows: Tensor, lengths: Sequence[int]
    ) -> Tensor:
        """(R, T, K) the log-probabilities of all tags, for each pair of a row and a predicate's token.

        `rows` (R,) are the rows of the pairs, on the device.
        """
        tokens = torch.tensor([token for _, token in pairs])
        flags = send(nn.functional.one_hot(tokens, vectors.input.shape[1]), rows.device)
        x = torch.cat([vectors.input.index_select(0, rows), self.is_predicate(flags)], dim=2)
        x = self.encoder(x, [lengths[row] for row, _ in pairs])
        if vectors.output is not None:
            x = torch.cat([x, vectors.output.index_select(0, rows).to(x.dtype)], dim=2)
        emissions: Tensor = self.output(x)
        return emissions.to(torch.promote_types(emissions.dtype, torch.float32)).log_softmax(dim=2)


def _checked_predicate(example: RoleExample, token: int) -> int:
    if not 0 <= token < len(example.tokens):
        raise InputError(
            f"{example.location or 'an example'}: its predicate is token {token}; the sentence has tokens 0 to "
            f"{len(example.tokens) - 1}"
        )
    return token
