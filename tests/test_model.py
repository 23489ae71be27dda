"""A model as one thing: saved, moved, known again."""

from functools import partial
from pathlib import Path

import pytest
import torch

from elmore import Elmo, Embedder, Model, load
from elmore.errors import InputError
from elmore.model import save


def test_a_saved_model_is_replaced_only_by_force(tmp_path: Path, tiny_model: Model) -> None:
    ways = (partial(save, tiny_model), Embedder(tiny_model).save_pretrained, Elmo(tiny_model).save_pretrained)
    for number, save_model in enumerate(ways):
        folder = tmp_path / str(number)
        save_model(folder)
        with pytest.raises(InputError, match=r"is there already; choose another name, or replace it with --force"):
            save_model(folder)
        save_model(folder, force=True)
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is no folder of Elmore's, and not empty"):
        save(tiny_model, tmp_path / "papers", force=True)


@pytest.mark.parametrize("name", ["words.projection.weight", "lstm.0"])
def test_one_changed_weight_makes_another_fingerprint(name: str) -> None:
    model = load("tiny-random")
    before = model.fingerprint()
    assert load("tiny-random").fingerprint() == before
    parameter = next(value for key, value in model.network.named_parameters() if key.startswith(name))
    with torch.no_grad():
        parameter.view(-1)[0] += 1e-3
    assert model.fingerprint() != before


def test_a_model_fits_on_a_line_and_into_a_small_table(tiny_model: Model) -> None:
    assert repr(tiny_model) == "Model('tiny-random', dim=32, layers=3, parameters=36,936)"
    assert "<tr><th>layers</th><td>3 of 32</td></tr>" in tiny_model._repr_html_()
