"""Options of inference: values are checked when the record is made, and layers are selected in any of Python's ways."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from elmore.embedding.options import InferenceOptions, LayerSelection, dtype_name
from elmore.errors import InputError


@pytest.mark.parametrize("layers", ["top", 2, -1, np.int64(2), np.int8(-1), np.array(2), torch.tensor(2)])
def test_layer_selection_accepts_every_form_of_a_number(layers: Any) -> None:
    selection = LayerSelection.parse(layers, num_layers=3)
    assert selection == LayerSelection((2,), averaged=True)
    assert selection.name == 2


@pytest.mark.parametrize(
    "layers",
    [[0, 2], (0, -1), range(0, 3, 2), slice(None, None, 2), np.array([0, 2]), [np.int32(0), 2], torch.tensor([0, 2])],
)
def test_layer_selection_accepts_every_form_of_several_numbers(layers: Any) -> None:
    selection = LayerSelection.parse(layers, num_layers=3)
    assert selection == LayerSelection((0, 2), averaged=False)
    assert selection.name == [0, 2]


def test_layer_selection_keeps_the_order_of_numbers() -> None:
    assert LayerSelection.parse([2, 0, 2], num_layers=3).indices == (2, 0, 2)


def test_layer_selection_of_all_and_average_has_every_layer() -> None:
    assert LayerSelection.parse("all", num_layers=3).name == [0, 1, 2]
    assert LayerSelection.parse(slice(None), num_layers=3) == LayerSelection.parse("all", num_layers=3)
    assert LayerSelection.parse("average", num_layers=3).name == "average"
    assert LayerSelection.parse("average", num_layers=1).name == 0


@pytest.mark.parametrize(("layers", "depth"), [(0, 0), ([1, 0], 1), ("top", 2), ("average", 2)])
def test_layer_selection_depth_is_the_highest_layer(layers: Any, depth: int) -> None:
    assert LayerSelection.parse(layers, num_layers=3).depth == depth


@pytest.mark.parametrize("layers", ["top", [np.int64(0), 2], "all", np.array([1])])
def test_layer_selection_name_is_plain_json(layers: Any) -> None:
    name = LayerSelection.parse(layers, num_layers=3).name
    assert json.loads(json.dumps(name)) == name
    assert LayerSelection.parse(name, num_layers=3) == LayerSelection.parse(layers, num_layers=3)


@pytest.mark.parametrize(
    "layers",
    [
        3,
        -4,
        "2",
        "",
        [],
        [0, 3],
        True,
        [True, False],
        np.array([True, False, True]),
        1.0,
        [0.0],
        None,
        slice(5, 9),
        [[0]],
        {},
    ],
)
def test_layer_selection_rejects_anything_else(layers: Any) -> None:
    with pytest.raises(InputError, match=r"layers is .*; this model has layers 0 to 2"):
        LayerSelection.parse(layers, num_layers=3)


@pytest.mark.parametrize("dtype", [np.float16, np.dtype("float16"), torch.float16, "float16"])
def test_dtype_name_accepts_types_of_numpy_and_torch(dtype: Any) -> None:
    assert dtype_name(dtype) == "float16"
    assert InferenceOptions(dtype=dtype).numpy_dtype is np.float16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "warm"}, "state is 'warm'"),
        ({"dtype": "int8"}, "dtype is 'int8'"),
        ({"dtype": torch.bfloat16}, "dtype is torch.bfloat16"),
        ({"dtype": np.float64}, "dtype is <class"),
        ({"compute": "int4"}, "compute is 'int4'"),
        ({"token_style": "spacy"}, "token_style is 'spacy'"),
        ({"batch_invariant": "yes"}, "batch_invariant is 'yes'"),
        ({"batch_tokens": 0}, "batch_tokens is 0"),
        ({"batch_tokens": 1.5}, "batch_tokens is 1.5"),
        ({"batch_size": -3}, "batch_size is -3"),
    ],
)
def test_inference_options_name_a_wrong_value(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        InferenceOptions(**options)


def test_carried_rows_are_the_batch_size_of_a_carried_state() -> None:
    assert InferenceOptions(batch_size=3).carried_rows is None
    assert InferenceOptions(state="carry", batch_size=3).carried_rows == 3
    assert InferenceOptions(state="carry").carried_rows == 64  # as `allennlp elmo`


def test_batch_options_are_plain_integers() -> None:
    options = InferenceOptions(batch_size=np.int64(3), batch_tokens=np.int32(20))
    assert json.dumps([options.batch_size, options.batch_tokens]) == "[3, 20]"
