"""BiDAF with self-attention, a reader that finds the answer to a question in a paragraph.

    c, q = biGRU(paragraph), biGRU(question)           one for both, and more vectors beside it where there are any
    x = relu(W attention flow of c and q)
    x = x + residual self-attention of x
    start, end = two biGRUs on top of each other

Clark and Gardner, 2017, which Peters et al., 2018, A.4, begin with; they put a second mix of ELMo's layers beside the
first biGRU's output. B questions, S tokens of a paragraph, T of a question.
"""

import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.tasks.modules.dropout import VariationalDropout
from elmore.tasks.modules.encoder_inputs import EncoderInputs
from elmore.tasks.modules.feed_forward import FeedForward
from elmore.tasks.modules.rnn import BiGru
from elmore.tasks.squad.answer_spans import SpanLogits, SpanPredictor
from elmore.tasks.squad.attention_flow import AttentionFlow, ResidualSelfAttention


class Bidaf(nn.Module):
    """Scores of where an answer begins and ends.

    `extra_dim` is the size of the vectors that stand beside the first biGRU's output; 0 for none. They come with
    whatever dropout they are to have. `dropout` is variational, before and behind the GRUs and before the last two.

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

    def _encoded(self, sentences: EncoderInputs) -> Tensor:  # (B, tokens, 2 hidden + E)
        extra = sentences.extra
        given = 0 if extra is None else extra.shape[2]
        if given != self.extra_dim:
            raise InputError(f"this reader takes extra vectors of size {self.extra_dim} and was given size {given}")
        x: Tensor = self.dropout(self.encoder(sentences.x, sentences.lengths))
        return x if extra is None else torch.cat([x, extra.to(x.dtype)], dim=2)
