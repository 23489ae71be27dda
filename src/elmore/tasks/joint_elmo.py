"""A biLM that is trained with the task: its layers with their gradients, unfrozen from the top down.

B sentences, T tokens, L layers, dim size of its vectors.
"""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmore.embedding.token_alignment import pool_tokens
from elmore.kernels.autocast import compute_dtype
from elmore.kernels.selection import Kernels, choose_kernels
from elmore.model import Model
from elmore.network.state import State
from elmore.text.style import TokenStyle
from elmore.text.token_style import convert_tokens
from elmore.text.tokenizing import Tokenizer


class JointElmo(nn.Module):
    """Reads the tokens of a batch, whatever their style, one vector of every layer for each of them."""

    def __init__(self, model: Model, *, token_style: TokenStyle, unfreeze_every: float) -> None:
        super().__init__()
        self.model = model
        self.network = model.network
        self.start_h: Tensor
        self.start_c: Tensor
        self.register_buffer("start_h", model.start.h, persistent=False)
        self.register_buffer("start_c", model.start.c, persistent=False)
        self._tokenizer = Tokenizer(model.card.text)
        self._token_style = token_style
        self._unfreeze_every = unfreeze_every

    def unfreeze(self, epoch: float) -> None:
        """Train the layers whose turn has come after so many epochs: the top one first, the word encoder last."""
        parts = [*reversed(list(self.network.lstm)), self.network.words]
        count = len(parts) if not self._unfreeze_every else 1 + int(epoch / self._unfreeze_every)
        for number, part in enumerate(parts):
            part.requires_grad_(requires_grad=number < count)

    def forward(self, sentences: Sequence[Sequence[str]]) -> Tensor:  # (B, T, L, dim)
        words = [list(sentence) for sentence in sentences]
        groups = None
        if self._token_style != "moses":
            converted = [convert_tokens(tokens, self._tokenizer, style=self._token_style) for tokens in sentences]
            words, groups = [one.words for one in converted], [one.word_spans for one in converted]
        batch = self.model.batch(words)
        vectors = self.network.words(batch.inputs, kernels=self._word_kernels())
        layers, _ = self.network.read(vectors, batch, State(self.start_h, self.start_c).repeat(len(batch)))
        stacked: Tensor = layers.stack()  # (L, B, words, dim)
        if groups is None:
            return stacked.movedim(0, 2)
        tokens = [pool_tokens(stacked[:, row], own).movedim(0, 1) for row, own in enumerate(groups)]
        return pad_sequence(tokens, batch_first=True)

    def _word_kernels(self) -> Kernels | None:
        """Those of training for the words on a GPU, also while they are frozen, or only read; elsewhere None, for any.

        Without Triton, reading would convolve the characters of all distinct words of a batch at once, and for filters
        as wide as these cuDNN may choose Fourier transforms, whose workspace is many times the batch.
        """
        one = next(self.network.words.parameters())
        if one.device.type != "cuda":
            return None
        return choose_kernels(one.device, compute_dtype(one), training=True, name=self.network.kernel_name)
