import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from elmore.compat.allennlp import Elmo, ElmoTokenEmbedder, batch_to_ids
from elmore.errors import FormatError

PREFIX = "text_field_embedder.token_embedder_elmo."
SENTENCES = [["I", "took", "a", "bow"], ["Me", "too"]]


@pytest.fixture(scope="module")
def tagger(fixtures: Path) -> dict[str, torch.Tensor]:
    """A tagger that AllenNLP trained on the model of the fixtures, with a trained mix."""
    path = fixtures / "allennlp" / "simple_tagger_best.th"
    stored: dict[str, torch.Tensor] = torch.load(path, weights_only=True)
    return stored


class Tagger(nn.Module):
    """The part of the tagger that contains the embedder, under the same names."""

    def __init__(self, pair: Any) -> None:
        super().__init__()
        self.text_field_embedder = nn.ModuleDict({"token_embedder_elmo": ElmoTokenEmbedder(*pair)})
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()


def test_model_with_token_embedder_loads_state_dict_of_allennlp(
    tagger: dict[str, torch.Tensor], allennlp_pair: Any
) -> None:
    # A copy: hooks must be copied with the module.
    ours = copy.deepcopy(Tagger(allennlp_pair))
    missing, unexpected = ours.load_state_dict(tagger, strict=False)
    assert missing == []
    assert not any("elmo" in name for name in unexpected)  # this module lacks the other layers of the tagger
    expected = Elmo(*allennlp_pair, 1).eval()
    expected.scalar_mix_0.gamma.data = tagger[f"{PREFIX}_elmo.scalar_mix_0.gamma"]
    for k, scalar in enumerate(expected.scalar_mix_0.scalar_parameters):
        scalar.data.copy_(tagger[f"{PREFIX}_elmo.scalar_mix_0.scalar_parameters.{k}"])
    vectors = ours.eval().text_field_embedder["token_embedder_elmo"](batch_to_ids(SENTENCES))
    torch.testing.assert_close(vectors, expected(batch_to_ids(SENTENCES))["elmo_representations"][0], rtol=0, atol=5e-6)


def test_elmo_loads_its_part_of_state_dict_strictly(tagger: dict[str, torch.Tensor], allennlp_pair: Any) -> None:
    prefix = f"{PREFIX}_elmo."
    own = {name.removeprefix(prefix): tensor for name, tensor in tagger.items() if name.startswith(prefix)}
    before = list(own)
    Elmo(*allennlp_pair, 1).load_state_dict(own)
    assert list(own) == before


def test_elmo_loads_its_own_state_dict(tiny_pair: Any) -> None:
    trained, fresh = (Elmo(*tiny_pair, 2, vocab_to_cache=["@@PADDING@@", "a"]).eval() for _ in range(2))
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.mul_(1.5)
    fresh.load_state_dict(trained.state_dict())
    ids = batch_to_ids(SENTENCES)
    assert torch.equal(fresh(ids)["elmo_representations"][1], trained(ids)["elmo_representations"][1])


def test_state_dict_does_not_contain_carried_state(tiny_pair: Any) -> None:
    elmo = Elmo(*tiny_pair, 1)
    names = set(elmo.state_dict())
    elmo(batch_to_ids(SENTENCES))
    assert set(elmo.state_dict()) == names


def test_state_dict_of_another_model_is_rejected_by_name(
    tagger: dict[str, torch.Tensor], allennlp_pair: Any, tiny_pair: Any
) -> None:
    with pytest.raises(FormatError, match=r"_elmo_lstm.*_char_embedding_weights has shape \(262, 4\)"):
        Tagger(tiny_pair).load_state_dict(tagger, strict=False)
    incomplete = {name: tensor for name, tensor in tagger.items() if "backward_layer_1" not in name}
    with pytest.raises(FormatError, match=r"backward_layer_1.* is missing"):
        Tagger(allennlp_pair).load_state_dict(incomplete, strict=False)
