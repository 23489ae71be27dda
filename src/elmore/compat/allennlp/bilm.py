"""AllenNLP's `_ElmoBiLm` and `_ElmoCharacterEncoder`: torch modules that read character ids.

B sentences, n positions for words, K words of all sentences, W distinct words, M characters of a word, P vector size.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import pad

from elmore.compat.allennlp.character_ids import (
    NO_CHARACTER,
    IndexedWords,
    add_boundaries,
    distinct_words,
    index_word_ids,
    index_words,
    load_character_model,
)
from elmore.compat.allennlp.state_dict import rename_bilm, rename_word_encoder
from elmore.config import ModelConfig
from elmore.engine.rows import PackedRows
from elmore.errors import InputError
from elmore.nn.bilm import BiLM, StateTensors, padding_mask
from elmore.nn.devices import allow_forked_process
from elmore.nn.word_encoder import WordEncoder
from elmore.text.word_ids import WordIds

WORDS_AT_ONCE = 256  # when a vocabulary is encoded


class BiLmOutput(TypedDict):
    """The result of a biLM; n + 2 positions include the boundaries."""

    activations: list[Tensor]  # of each layer (B, n + 2, dim), zero beyond a sentence's end
    mask: Tensor  # (B, n + 2) true where there is a word or a boundary


class TokenEmbeddings(TypedDict):
    """The result of a word encoder; n + 2 positions include the boundaries."""

    token_embedding: Tensor  # (B, n + 2, P), beyond a sentence's end the vector of a word of zeros
    mask: Tensor  # (B, n + 2) true where there is a word or a boundary


class ElmoBiLm(nn.Module):
    """AllenNLP's `_ElmoBiLm`, which is `Elmo._elmo_lstm`.

    It carries its state from call to call, so one module belongs to one thread.
    """

    _bos_embedding: Tensor | None
    _eos_embedding: Tensor | None

    def __init__(
        self,
        options_file: str | Path,
        weight_file: str | Path,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        model, self._boundaries = load_character_model(options_file, weight_file)
        self.network = BiLM.from_checkpoint(model.checkpoint).requires_grad_(requires_grad)
        self.indexer = model.word_indexer
        self.num_layers = model.config.num_layers
        self._requires_grad = requires_grad
        self._elmo_lstm = CarriedState(model.config)
        self._word_embedding: nn.Embedding | None = None
        self.register_buffer("_bos_embedding", None, persistent=False)
        self.register_buffer("_eos_embedding", None, persistent=False)
        self.register_load_state_dict_pre_hook(rename_bilm)  # type: ignore[no-untyped-call]
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)

    @property
    def _token_embedder(self) -> "CharacterEncoder":
        """The word encoder, under AllenNLP's name."""
        return CharacterEncoder(self.network.words, self._boundaries, output_dim=self.network.config.vector_dim)

    def get_output_dim(self) -> int:
        return self.network.config.dim

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> BiLmOutput:
        """Run character ids (B, n, 50), or word ids (B, n) if all of them are in the cached vocabulary."""
        allow_forked_process(inputs.device)
        if self._word_embedding is not None and word_inputs is not None and self._are_cached(word_inputs):
            width = word_inputs.shape[-1]
            words, distinct = index_word_ids(_array(word_inputs))
            assert self._bos_embedding is not None
            assert self._eos_embedding is not None
            boundaries = torch.stack([self._bos_embedding, self._eos_embedding])
            cached = self._word_embedding(torch.from_numpy(distinct).to(boundaries.device))
            layers = self._run(torch.cat([boundaries, cached]), words)
        else:
            width = inputs.shape[-2]
            words = index_words(_array(inputs), boundaries=self._boundaries)
            layers = self._run(encode_words(self.network.words, words.characters), words)
        # The output is as wide as the input, also if the longest sentence is shorter.
        mask = torch.from_numpy(padding_mask(words.lengths, boundaries=True)).to(layers.device)
        unused = width + 2 - mask.shape[1]
        return {
            "activations": [pad(layer, (0, 0, 0, unused)) for layer in layers],
            "mask": pad(mask, (0, unused)),
        }

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Reset the carried state to zeros: of all rows, or of the rows where a boolean mask (rows,) is true."""
        self._elmo_lstm.reset_states(mask)

    def create_cached_cnn_embeddings(self, tokens: Sequence[str]) -> None:
        """Encode these words now; calls may then give their indices in this list as `word_inputs`.

        The word with index 0 is the padding. `@@UNKNOWN@@` gets the vector of that string, like any other word.
        """
        words = ["<S>", "</S>", *tokens]
        chunks = [words[first : first + WORDS_AT_ONCE] for first in range(0, len(words), WORDS_AT_ONCE)]
        with torch.no_grad():
            vectors = torch.cat([self.network.words(self.indexer.index(chunk)) for chunk in chunks])
            vectors[2:3] = 0
        self._bos_embedding, self._eos_embedding = vectors[0], vectors[1]
        self._word_embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
            vectors[2:].clone(), freeze=not self._requires_grad, padding_idx=0
        )

    def _are_cached(self, word_ids: Tensor) -> bool:
        assert self._word_embedding is not None
        return not ((word_ids < 0) | (word_ids >= self._word_embedding.num_embeddings)).any()

    def _run(self, vectors: Tensor, words: IndexedWords) -> Tensor:  # (layers, rows, steps, dim)
        """Run sentences over the vectors of distinct words; each row continues where it ended in the last call."""
        if not len(words.lengths):
            raise InputError("the batch contains no sentence")
        rows = PackedRows.one_per_row(words.numbers, words.lengths, boundaries=(0, 1))
        start = self._elmo_lstm.start(len(words.lengths), like=vectors)
        layers, after = self.network.run(vectors, rows, start)
        self._elmo_lstm.update(after)
        return layers


class CarriedState(nn.Module):
    """The state of each row of a batch, from call to call; no gradient flows through it.

    Row r of a call starts where row r of the previous call ended. Rows that a smaller batch does not use keep their
    state; additional rows of a larger batch start from zeros. With `stateful = False` each call starts from zeros.
    """

    # A module without parameters, so that each replica of a DataParallel has a state of its own.

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.stateful = True
        self._states: StateTensors | None = None

    def start(self, rows: int, *, like: Tensor) -> StateTensors:
        """The state of the first rows, with the device and dtype of `like`."""
        if self._states is None or not self.stateful:
            return StateTensors.zeros(self.config, rows).to(like.device).to(like.dtype)
        # The module may have been moved since the last call.
        self._states = self._states.to(like.device).to(like.dtype)
        return self._states.first(rows)

    def update(self, after: StateTensors) -> None:
        """Store the state of the first rows."""
        if self.stateful:
            after = after.detach()
            self._states = after if self._states is None else self._states.updated(after)

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Reset all rows, or those where a boolean mask (rows,) is true."""
        if mask is None or self._states is None:
            self._states = None
            return
        if mask.shape != (self._states.rows,):
            raise InputError(f"the mask has shape {tuple(mask.shape)}; {self._states.rows} rows have a state")
        unchanged = ~mask.bool().to(self._states.h.device)[:, None]
        self._states = StateTensors(self._states.h * unchanged, self._states.c * unchanged)


class CharacterEncoder(nn.Module):
    """The word encoder of a biLM with AllenNLP's interface: character ids in, vectors and mask out."""

    def __init__(self, words: WordEncoder, boundaries: NDArray[np.int64], *, output_dim: int) -> None:
        super().__init__()
        self.words = words
        self.output_dim = output_dim
        self._boundaries = boundaries

    def get_output_dim(self) -> int:
        return self.output_dim

    def forward(self, inputs: Tensor) -> TokenEmbeddings:
        """Encode character ids (B, n, M), with the boundaries around each sentence."""
        ids, mask = add_boundaries(_array(inputs), boundaries=self._boundaries)
        characters, numbers = distinct_words(ids.reshape(-1, ids.shape[-1]))
        vectors = encode_words(self.words, characters)  # (W, P)
        rows = torch.from_numpy(numbers).to(vectors.device)
        return {
            "token_embedding": vectors[rows].view(*mask.shape, -1),
            "mask": torch.from_numpy(mask).to(vectors.device),
        }


class ElmoCharacterEncoder(CharacterEncoder):
    """AllenNLP's `_ElmoCharacterEncoder`: a `CharacterEncoder` from the two files of a biLM."""

    def __init__(self, options_file: str | Path, weight_file: str | Path, requires_grad: bool = False) -> None:
        model, boundaries = load_character_model(options_file, weight_file)
        words = BiLM.from_checkpoint(model.checkpoint).words.requires_grad_(requires_grad)
        super().__init__(words, boundaries, output_dim=model.config.vector_dim)
        self.config = model.config
        self.register_load_state_dict_pre_hook(rename_word_encoder)  # type: ignore[no-untyped-call]


def encode_words(words: WordEncoder, characters: NDArray[np.int64]) -> Tensor:
    """The vectors (W, P) of distinct words (W, M); NO_CHARACTER is a row of zeros, as in AllenNLP."""
    table: Tensor = words.characters
    if (characters == NO_CHARACTER).any():
        table = pad(table, (0, 0, 0, 1))
    vectors: Tensor = functional_call(words, {"characters": table}, (WordIds(characters, None),))
    return vectors


def _array(ids: Tensor) -> NDArray[np.int64]:
    array: NDArray[np.int64] = ids.detach().cpu().numpy()
    return array
