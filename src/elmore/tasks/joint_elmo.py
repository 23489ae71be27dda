"""A biLM that is trained with the task, unfrozen from the top layer down.

B sentences, T tokens, L layers, dim size of its vectors.
"""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmore.embedding.token_alignment import pool_tokens
from elmore.model import Model
from elmore.nn.pretrained import PretrainedBiLM, WordBatch
from elmore.text.style import TokenStyle
from elmore.text.token_style import retokenize
from elmore.text.tokenizer import Tokenizer


class JointElmo(nn.Module):
    """All layers of the tokens of a batch, in any token style."""

    def __init__(self, model: Model, *, token_style: TokenStyle, unfreeze_every: float) -> None:
        super().__init__()
        self._model = model.without_weights()
        self.network = PretrainedBiLM.from_model(model)
        self._tokenizer = Tokenizer(model.card.text)
        self._token_style = token_style
        self._unfreeze_every = unfreeze_every

    @property
    def model(self) -> Model:
        """The biLM as plain data, with a copy of its present weights."""
        return self.network.with_weights(self._model)

    def unfreeze(self, epoch: float) -> None:
        """Train the layers that are due after this many epochs: the top one first, the word encoder last."""
        parts = [*reversed(list(self.network.lstm)), self.network.words]
        count = len(parts) if not self._unfreeze_every else 1 + int(epoch / self._unfreeze_every)
        for number, part in enumerate(parts):
            part.requires_grad_(requires_grad=number < count)

    def forward(self, sentences: Sequence[Sequence[str]]) -> Tensor:  # (B, T, L, dim)
        words = [list(sentence) for sentence in sentences]
        spans = None
        if self._token_style != "moses":
            converted = [retokenize(tokens, self._tokenizer, style=self._token_style) for tokens in sentences]
            words, spans = [one.words for one in converted], [one.word_spans for one in converted]
        layers = self.network.layers(WordBatch.of(words, self._model.word_indexer))  # (L, B, words, dim)
        if spans is None:
            return layers.movedim(0, 2)
        tokens = [pool_tokens(layers[:, row], own).movedim(0, 1) for row, own in enumerate(spans)]
        return pad_sequence(tokens, batch_first=True)
