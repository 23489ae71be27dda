"""The vectors of words without their context, from character ids as AllenNLP counts them.

B sentences, n words, M characters a word, P vector size.
"""

from pathlib import Path
from typing import TypedDict

from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import pad

from elmore.compat.allennlp.character_ids import NO_CHARACTER, add_boundaries, distinct_words
from elmore.compat.allennlp.state_dict import rename_word_encoder
from elmore.errors import InputError
from elmore.model import Model, load
from elmore.network.word_encoder import WordEncoder
from elmore.text.spelling import WordInputs


class TokenEmbeddings(TypedDict):
    """What a call gives; boundaries are counted in n + 2."""

    token_embedding: Tensor  # (B, n + 2, P), beyond a sentence's end the vector of a word of zeros
    mask: Tensor  # (B, n + 2) true where there is a word or a boundary


class CharacterEncoder(nn.Module):
    """The word encoder of a biLM as AllenNLP calls it: ids in, vectors and mask out, boundaries put around."""

    _boundaries: Tensor

    def __init__(self, words: WordEncoder, boundaries: Tensor, *, output_dim: int) -> None:
        super().__init__()
        self.words = words
        self.output_dim = output_dim
        self.register_buffer("_boundaries", boundaries, persistent=False)

    def get_output_dim(self) -> int:
        return self.output_dim

    def forward(self, inputs: Tensor) -> TokenEmbeddings:
        """Read character ids (B, n, M)."""
        ids, mask = add_boundaries(inputs, boundaries=self._boundaries)
        characters, numbers = distinct_words(ids.flatten(0, 1))
        vectors = encode_words(self.words, WordInputs(characters, None))
        return {"token_embedding": vectors[numbers].view(*mask.shape, -1), "mask": mask}


class ElmoCharacterEncoder(CharacterEncoder):
    """AllenNLP's `_ElmoCharacterEncoder`: a `CharacterEncoder` from the two files of a biLM."""

    def __init__(self, options_file: str | Path, weight_file: str | Path, requires_grad: bool = False) -> None:
        model, boundaries = load_character_model(options_file, weight_file)
        words = model.network.words.requires_grad_(requires_grad)
        super().__init__(words, boundaries, output_dim=model.config.vector_dim)
        self.config = model.config
        self.register_load_state_dict_pre_hook(rename_word_encoder)  # type: ignore[no-untyped-call]


def load_character_model(options_file: str | Path, weight_file: str | Path) -> tuple[Model, Tensor]:
    """The model in the two files, which must read characters, and how it spells the two boundaries (2, M)."""
    model = load(options_file=options_file, weight_file=weight_file)
    alphabet = model.speller.alphabet
    if alphabet is None:
        raise InputError(f"{weight_file} is a model that reads whole words; open it with elmore.Embedder")
    # At full width, as the ids that come in have it.
    return model, alphabet.spell([model.config.begin, model.config.end])


def encode_words(words: WordEncoder, inputs: WordInputs) -> Tensor:
    """The vectors (W, P) of distinct words, of which some characters may be none: AllenNLP reads zeros there."""
    assert inputs.character_ids is not None
    table: Tensor = words.characters
    if (inputs.character_ids == NO_CHARACTER).any():
        table = pad(table, (0, 0, 0, 1))
    vectors: Tensor = functional_call(words, {"characters": table}, (inputs,))
    return vectors
