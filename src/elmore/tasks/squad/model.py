"""BiDAF with self-attention: finds the answer to a question in a paragraph.

    c, q = biGRU(paragraph), biGRU(question)           shared weights, concatenated with extra vectors
    x = relu(W attention flow of c and q)
    x = x + residual self-attention of x
    start, end = two stacked biGRUs

Clark and Gardner, 2017; attention flow of Seo et al., 2017. Peters et al., 2018, A.4, append a second mix of ELMo's
layers to the first biGRU's output. B questions, S tokens of a paragraph, T of a question, D size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from elmore.fields import checked_field
from elmore.nn.devices import send
from elmore.tasks.core.config import TaskOptions
from elmore.tasks.core.task import Batch, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.token_batch import TokenInputs
from elmore.tasks.modules.attention import TrilinearSimilarity, attend, masked_softmax
from elmore.tasks.modules.ensembling import mean_of_probabilities
from elmore.tasks.modules.feed_forward import FeedForward
from elmore.tasks.modules.rnn import BiGru, EncoderInputs, VariationalDropout, append_extra


@dataclass(frozen=True, kw_only=True)
class SquadOptions(TaskOptions):
    """[task] of question answering."""

    hidden: int = checked_field(90, at_least=1)  # of every GRU and direction
    dropout: float = checked_field(0.2, at_least=0, at_most=0.95)
    longest_answer: int = checked_field(17, at_least=1)  # tokens of a predicted answer


class SquadExample(NamedTuple):
    """A question and a window of a paragraph; all windows of a question have its location."""

    context: Sequence[str]
    question: Sequence[str]
    offsets: Sequence[tuple[int, int]]  # of each token, the characters of the paragraph
    text: str  # the whole paragraph
    id: str
    answers: Sequence[str] = ()
    span: tuple[int, int] | None = None  # first and last token of the answer, if it is in this window
    location: str = ""  # file, article, paragraph and question


class PredictedAnswer(NamedTuple):
    """The best answer of a window."""

    text: str
    start: int  # characters of the paragraph
    end: int
    score: float
    probability: float


class SpanLogits(NamedTuple):
    """Logits of the tokens of paragraphs; the smallest number at padding."""

    start: Tensor  # (B, S), float32, of the first token
    end: Tensor  # (B, S), of the last token


class BestSpan(NamedTuple):
    """A span of tokens."""

    first: int
    last: int
    score: float  # the sum of both logits, which is comparable between windows of a paragraph
    probability: float  # the product of the probabilities of first and last token


class AttentionFlow(nn.Module):
    """Attention between the tokens of a paragraph and of a question, in both directions.

        A_ij = trilinear similarity of c_i and q_j
        c~_i = softmax over j of A_i @ Q,   q2c = softmax over i of (max over j of A_ij) @ C
        [c; c~; c * c~; c * q2c]

    >>> c, q = torch.ones(2, 5, 3), torch.ones(2, 4, 3)
    >>> AttentionFlow(3)(c, q, torch.ones(2, 5, dtype=torch.bool), torch.ones(2, 4, dtype=torch.bool)).shape
    torch.Size([2, 5, 12])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TrilinearSimilarity(dim)
        self.output_dim = 4 * dim

    def forward(self, c: Tensor, q: Tensor, c_mask: Tensor, q_mask: Tensor) -> Tensor:  # (B, S, D), (B, T, D), masks
        scores = self.similarity(c, q)  # (B, S, T)
        attended = attend(scores, q, q_mask)
        smallest = torch.finfo(scores.dtype).min
        largest = scores.masked_fill(~q_mask.unsqueeze(1), smallest).amax(dim=2)  # (B, S)
        summary = torch.bmm(masked_softmax(largest, c_mask).unsqueeze(1).to(c.dtype), c)  # (B, 1, D)
        return torch.cat([c, attended, c * attended, c * summary], dim=2)


class SelfAttention(nn.Module):
    """Attention of each token of a paragraph to the other tokens, or to none.

        w_ij = exp(A_ij) / (exp(b) + sum over k != i of exp(A_ik)),   w_ii = 0,   b trained
        x~ = w @ X

    >>> SelfAttention(3)(torch.ones(2, 5, 3), torch.ones(2, 5, dtype=torch.bool)).shape
    torch.Size([2, 5, 3])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TrilinearSimilarity(dim)
        self.nothing = nn.Parameter(torch.tensor(-1.0))  # b

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # (B, S, D), (B, S) -> (B, S, D)
        scores = self.similarity(x, x)  # (B, S, S)
        allowed = mask.unsqueeze(1) & ~torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        # A further column, without a value: attention to no token.
        nothing = self.nothing.to(scores.dtype).expand(*scores.shape[:2], 1)
        weights = torch.cat([scores, nothing], dim=2).softmax(dim=2)[..., :-1].masked_fill(~allowed, 0)
        return torch.bmm(weights.to(x.dtype), x)


class ResidualSelfAttention(nn.Module):
    """x + relu(W [z~; z; z~ * z]), where z = biGRU(x) and z~ is its self-attention.

    >>> block = ResidualSelfAttention(6, hidden=4, dropout=0.2)
    >>> block(torch.ones(2, 5, 6), torch.ones(2, 5, dtype=torch.bool), [5, 5]).shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, dim: int, *, hidden: int, dropout: float) -> None:
        super().__init__()
        self.encoder = BiGru(dim, hidden, input_dropout=dropout)
        self.dropout = VariationalDropout(dropout)
        self.attention = SelfAttention(self.encoder.output_dim)
        self.projection = FeedForward(3 * self.encoder.output_dim, (dim,))

    def forward(self, x: Tensor, mask: Tensor, lengths: tuple[int, ...]) -> Tensor:  # (B, S, D) -> (B, S, D)
        z = self.dropout(self.encoder(x, lengths))
        attended = self.attention(z, mask)
        added: Tensor = self.projection(torch.cat([attended, z, attended * z], dim=2))
        return x + added


class SpanPredictor(nn.Module):
    """Two biGRUs; the second also has the output of the first as input (Clark and Gardner, 2017).

        s = biGRU(x),   start = w_s s;     e = biGRU([x; s]),   end = w_e e

    >>> logits = SpanPredictor(6, hidden=4)(torch.ones(2, 5, 6), torch.ones(2, 5, dtype=torch.bool), (5, 5))
    >>> logits.start.shape, logits.end.shape
    (torch.Size([2, 5]), torch.Size([2, 5]))
    """

    def __init__(self, dim: int, *, hidden: int) -> None:
        super().__init__()
        self.start_encoder = BiGru(dim, hidden)
        self.end_encoder = BiGru(dim + 2 * hidden, hidden)
        self.start, self.end = nn.Linear(2 * hidden, 1), nn.Linear(2 * hidden, 1)
        for layer in (self.start, self.end):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, mask: Tensor, lengths: tuple[int, ...]) -> SpanLogits:  # (B, S, D), (B, S)
        s = self.start_encoder(x, lengths)
        e = self.end_encoder(torch.cat([x, s.to(x.dtype)], dim=2), lengths)
        return SpanLogits(_masked(self.start(s), mask), _masked(self.end(e), mask))


def _masked(scores: Tensor, mask: Tensor) -> Tensor:  # (B, S, 1), (B, S) -> (B, S)
    wide = scores.squeeze(2).to(torch.promote_types(scores.dtype, torch.float32))
    return wide.masked_fill(~mask, torch.finfo(wide.dtype).min)


class Bidaf(nn.Module):
    """Logits of the first and the last token of an answer.

    `extra_dim` is the size of the vectors that are concatenated to the first biGRU's output. No dropout is applied to
    them here. `dropout` is variational, before and after the GRUs and before the last two.

    >>> text = EncoderInputs(torch.ones(1, 5, 7), torch.ones(1, 5, dtype=torch.bool), (5,))
    >>> Bidaf(7, hidden=4)(text, text).start.shape
    torch.Size([1, 5])
    """

    def __init__(self, input_dim: int, *, extra_dim: int = 0, hidden: int = 90, dropout: float = 0.2) -> None:
        super().__init__()
        self.extra_dim = extra_dim
        size = 2 * hidden
        self.encoder = BiGru(input_dim, hidden, input_dropout=dropout)
        self.dropout = VariationalDropout(dropout)
        self.flow = AttentionFlow(size + extra_dim)
        self.projection = FeedForward(self.flow.output_dim, (size,))
        self.self_attention = ResidualSelfAttention(size, hidden=hidden, dropout=dropout)
        self.predictor = SpanPredictor(size, hidden=hidden)

    def forward(self, context: EncoderInputs, question: EncoderInputs) -> SpanLogits:  # (B, S) each
        c, q = self._encoded(context), self._encoded(question)
        x = self.projection(self.flow(c, q, context.mask, question.mask))
        x = self.dropout(self.self_attention(x, context.mask, context.lengths))
        logits: SpanLogits = self.predictor(x, context.mask, context.lengths)
        return logits

    def _encoded(self, sentences: EncoderInputs) -> Tensor:  # (B, tokens, 2 hidden + extra)
        x = self.dropout(self.encoder(sentences.x, sentences.lengths))
        return append_extra(x, sentences.extra, self.extra_dim)


class SquadModel(TaskModel[SquadExample, PredictedAnswer]):
    """Finds the answer to a question."""

    def __init__(self, options: SquadOptions, embedder: TokenEmbedder) -> None:
        super().__init__()
        self.embedder = embedder
        self.longest_answer = options.longest_answer
        self.bidaf = Bidaf(
            embedder.input_dim, extra_dim=embedder.output_dim, hidden=options.hidden, dropout=options.dropout
        )

    def loss(self, batch: Batch[SquadExample]) -> Tensor:
        logits = self._logits(batch)
        spans = send(torch.tensor([example.span for example in batch.examples]), logits.start.device)
        return span_loss(logits, *spans.unbind(dim=1)) + self.embedder.penalty()

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[SquadExample]]) -> list[PredictedAnswer]:
        member_logits = [model._logits(batch) for model, batch in zip(members, batches, strict=True)]
        logits = SpanLogits(*(mean_of_probabilities(sides) for sides in zip(*member_logits, strict=True)))
        spans = best_spans(logits, longest=max(model.longest_answer for model in members))
        answers = []
        for example, span in zip(batches[0].examples, spans, strict=True):
            start, end = example.offsets[span.first][0], example.offsets[span.last][1]
            answers.append(PredictedAnswer(example.text[start:end], start, end, span.score, span.probability))
        return answers

    def _logits(self, batch: Batch[SquadExample]) -> SpanLogits:
        context, question = batch.inputs
        logits: SpanLogits = self.bidaf(self._embedded(context), self._embedded(question))
        return logits

    def _embedded(self, inputs: TokenInputs) -> EncoderInputs:
        vectors = self.embedder(inputs)
        return EncoderInputs(vectors.input, inputs.mask, inputs.lengths, vectors.output)


def span_loss(logits: SpanLogits, firsts: Tensor, lasts: Tensor) -> Tensor:  # (B,), (B,) -> ()
    """The sum of the cross entropies of first and last tokens, averaged over questions."""
    return nn.functional.cross_entropy(logits.start, firsts) + nn.functional.cross_entropy(logits.end, lasts)


@torch.no_grad()
def best_spans(logits: SpanLogits, *, longest: int) -> list[BestSpan]:
    """For each question the span of at most `longest` tokens with the largest sum of logits; ties go to the first.

    >>> logits = SpanLogits(torch.tensor([[0.0, 3.0, 0.0]]), torch.tensor([[9.0, 0.0, 1.0]]))
    >>> best_spans(logits, longest=2)[0][:3]  # an end before the start is not a span
    (0, 0, 9.0)
    """
    # Each start is combined with `longest` ends, not with all.
    longest = min(longest, logits.end.shape[1])
    ends = nn.functional.pad(logits.end, (0, longest - 1), value=torch.finfo(logits.end.dtype).min)
    scores = logits.start.unsqueeze(2) + ends.unfold(1, longest, 1)  # (B, S, longest)
    values, indices = scores.flatten(1).max(dim=1)
    firsts, lasts = indices // longest, indices // longest + indices % longest
    log_probs = [
        side.log_softmax(dim=1).gather(1, chosen.unsqueeze(1)).squeeze(1)
        for side, chosen in ((logits.start, firsts), (logits.end, lasts))
    ]
    probabilities = (log_probs[0] + log_probs[1]).exp()
    columns = (firsts.tolist(), lasts.tolist(), values.tolist(), probabilities.tolist())
    return [BestSpan(*row) for row in zip(*columns, strict=True)]
