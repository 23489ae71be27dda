"""The biLM as AllenNLP's objects hold it: it reads character ids, and remembers where each row of a batch ended."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from elmore.compat.allennlp.character_encoder import CharacterEncoder, encode_words, load_character_model
from elmore.compat.allennlp.character_ids import batch_of_ids, batch_of_words
from elmore.compat.allennlp.state_dict import rename_bilm
from elmore.config import ModelConfig
from elmore.errors import InputError
from elmore.network.layers import Layers
from elmore.network.state import State
from elmore.sources.published import PUBLISHED
from elmore.text.batch import Batch

# AllenNLP's default is the published original model.
DEFAULT_WEIGHT_FILE = PUBLISHED["original"]
DEFAULT_OPTIONS_FILE = DEFAULT_WEIGHT_FILE.replace("_weights.hdf5", "_options.json")

WORDS_AT_ONCE = 256  # when a vocabulary is encoded


class BiLmOutput(TypedDict):
    """What a call gives; boundaries are counted in n + 2."""

    activations: list[Tensor]  # of each layer (B, n + 2, dim), zero beyond a sentence's end
    mask: Tensor  # (B, n + 2) true where there is a word or a boundary


class ElmoBiLm(nn.Module):
    """AllenNLP's `_ElmoBiLm`, the one that sits in `Elmo._elmo_lstm` and `ElmoEmbedder.elmo_bilm`."""

    _bos_embedding: Tensor | None
    _eos_embedding: Tensor | None
    _boundaries: Tensor

    def __init__(
        self,
        options_file: str | Path,
        weight_file: str | Path,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        model, boundaries = load_character_model(options_file, weight_file)
        self.network = model.network.requires_grad_(requires_grad)
        self.speller = model.speller
        self.num_layers = model.config.num_layers
        self._requires_grad = requires_grad
        self._elmo_lstm = CarriedState(model.config)
        self._word_embedding: nn.Embedding | None = None
        self.register_buffer("_boundaries", boundaries, persistent=False)
        self.register_buffer("_bos_embedding", None, persistent=False)
        self.register_buffer("_eos_embedding", None, persistent=False)
        self.register_load_state_dict_pre_hook(rename_bilm)  # type: ignore[no-untyped-call]
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)

    @property
    def device(self) -> torch.device:
        return self._boundaries.device

    @property
    def _token_embedder(self) -> CharacterEncoder:
        """Its word encoder, by AllenNLP's name."""
        return CharacterEncoder(self.network.words, self._boundaries, output_dim=self.network.config.vector_dim)

    def get_output_dim(self) -> int:
        return self.network.config.dim

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> BiLmOutput:
        """Read character ids (B, n, 50), or, where a vocabulary is cached and knows them all, word ids (B, n)."""
        if self._word_embedding is not None and word_inputs is not None and self._are_cached(word_inputs):
            width = word_inputs.shape[-1]
            batch, distinct = batch_of_words(word_inputs)
            assert self._bos_embedding is not None
            assert self._eos_embedding is not None
            boundaries = torch.stack([self._bos_embedding, self._eos_embedding])
            layers = self._carry_on(torch.cat([boundaries, self._word_embedding(distinct)]), batch)
        else:
            width = inputs.shape[-2]
            layers = self.read(batch_of_ids(inputs, boundaries=self._boundaries))
        # A batch may be wider than its longest sentence, and what comes out is as wide as what went in.
        unused = width + 2 - layers.batch.word_indices.shape[1]
        activations = [layers.layer(number, boundaries=True) for number in range(len(layers))]
        return {
            "activations": [pad(layer, (0, 0, 0, unused)) for layer in activations],
            "mask": pad(layers.mask(boundaries=True), (0, unused)),
        }

    def read(self, batch: Batch) -> Layers:
        """Read a batch, starting each row where it ended last time."""
        return self._carry_on(encode_words(self.network.words, batch.inputs), batch)

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Forget what was read before: all of it, or the rows that a boolean mask names."""
        self._elmo_lstm.reset_states(mask)

    def create_cached_cnn_embeddings(self, tokens: Sequence[str]) -> None:
        """Encode these words now, so that calls may name them by their place in the list.

        The word at place 0 is the padding. A word counts as its spelling: `@@UNKNOWN@@` has the vector of that string.
        """
        words = ["<S>", "</S>", *tokens]
        chunks = [words[start : start + WORDS_AT_ONCE] for start in range(0, len(words), WORDS_AT_ONCE)]
        with torch.no_grad():
            vectors = torch.cat([self.network.words(self.speller.spell(chunk).to(self.device)) for chunk in chunks])
            vectors[2:3] = 0
        self._bos_embedding, self._eos_embedding = vectors[0], vectors[1]
        self._word_embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
            vectors[2:].clone(), freeze=not self._requires_grad, padding_idx=0
        )

    def _are_cached(self, word_ids: Tensor) -> bool:
        assert self._word_embedding is not None
        return not ((word_ids < 0) | (word_ids >= self._word_embedding.num_embeddings)).any()

    def _carry_on(self, vectors: Tensor, batch: Batch) -> Layers:
        if len(batch) == 0:
            raise InputError("the batch holds no sentence")
        start = self._elmo_lstm.start(len(batch), like=vectors)
        layers, after = self.network.read(vectors, batch, start)
        self._elmo_lstm.keep(after)
        return layers


class CarriedState(nn.Module):
    """What every row of a batch remembers, from call to call; no gradient flows through it.

    Row r goes on where row r of the call before ended. A smaller batch leaves the further rows waiting, a larger one
    starts them from zeros. With `stateful` set to False, every call starts from zeros.
    """

    # A module without parameters, for the sake of DataParallel: its replicas must not write into one memory.

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.stateful = True
        self._states: State | None = None

    def start(self, rows: int, *, like: Tensor) -> State:
        """The state of this many rows, of the device and dtype of `like`."""
        if self._states is None or not self.stateful:
            return State.zeros(self.config, rows).to(like.device).to(like.dtype)
        # The module may have been moved since the last call.
        self._states = self._states.to(like.device).to(like.dtype)
        return self._states.first(rows)

    def keep(self, after: State) -> None:
        """Remember the state of these rows."""
        if self.stateful:
            after = after.detach()
            self._states = after if self._states is None else self._states.updated(after)

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Forget all rows, or those that a boolean mask (rows,) names."""
        if mask is None or self._states is None:
            self._states = None
            return
        if mask.shape != (self._states.rows,):
            raise InputError(f"{self._states.rows} rows are remembered, and the mask has shape {tuple(mask.shape)}")
        kept = ~mask.bool().to(self._states.h.device)[:, None]
        self._states = State(self._states.h * kept, self._states.c * kept)
