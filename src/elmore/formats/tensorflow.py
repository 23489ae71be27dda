"""Checkpoints that bilm-tf wrote during training, read without TensorFlow.

    checkpoint                       the name of the newest checkpoint, perhaps with a path of another machine
    model.ckpt-N.index, .data-*      the variables after N updates: biLM, softmax and optimizer state
    options.json                     the shape of the model, and training options
    vocab.txt                        the words of the softmax, and of a model that reads words

The dump tool of bilm-tf copies the variables of the biLM to weights.hdf5 under other names. The variables are renamed
in the same way here, so `bilm_arrays` converts both formats.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import BinaryIO

import numpy as np

from elmore.display import join_names
from elmore.errors import FormatError, error_context
from elmore.formats.arrays import Floats
from elmore.formats.bilm_arrays import check_arrays, config_of_arrays, find_vocabulary, tensors_from_arrays
from elmore.formats.checkpoint import Checkpoint, Format
from elmore.formats.storage.container import Container, explain_read_errors, read_json
from elmore.formats.storage.tensorflow_bundle import Bundle, read_bundle

_OPTIONS = "options.json"
_SOFTMAX_WEIGHT, _SOFTMAX_BIAS, _WORDS = "lm/softmax/W", "lm/softmax/b", "lm/embedding"


def detect(container: Container) -> bool:
    names = container.names()
    has_data = any(re.search(r"\.data-\d{5}-of-\d{5}$", name) for name in names)
    return any(name.endswith(".index") for name in names) and (has_data or "checkpoint" in names)


def read(container: Container) -> Checkpoint:
    prefix = _newest_prefix(container)
    options = read_json(container, _OPTIONS)
    index = container.read(f"{prefix}.index")
    with error_context(f"{prefix}.index"):
        bundle = read_bundle(index, partial(_open_data, container, prefix))
        variables = _variables(bundle)
        shapes = {dumped: bundle.entries[name].shape for dumped, name in variables.items()}
    with error_context(_OPTIONS):
        config = config_of_arrays(options, shapes)
    with explain_read_errors(prefix), error_context(prefix):
        check_arrays(config, shapes, options_file=_OPTIONS)
        arrays = _read(bundle, variables)
        tensors = tensors_from_arrays(config, shapes, arrays.__getitem__)
    return Checkpoint(
        config=config,
        tensors=tensors,
        vocabulary=find_vocabulary(container, required=config.word_embedding_dim > 0),
        softmax=partial(_softmax, bundle, prefix) if _SOFTMAX_BIAS in bundle.entries else None,
    )


TENSORFLOW = Format(
    name="tensorflow", detect=detect, read=read, files="options.json, model.ckpt-N.index and model.ckpt-N.data-*"
)


def _newest_prefix(container: Container) -> str:
    """The prefix of the file names of the newest checkpoint."""
    prefixes = [name.removesuffix(".index") for name in container.names() if name.endswith(".index")]
    if "checkpoint" not in container.names():
        if not prefixes:
            raise FormatError("the .index file of the checkpoint is missing")
        return max(prefixes, key=_step)
    text = container.read("checkpoint").decode("utf-8", errors="replace")
    line = re.search(r'^model_checkpoint_path: *"(.*)"', text, re.MULTILINE)
    if line is None:
        raise FormatError("checkpoint: the line that begins with model_checkpoint_path is missing")
    # Only the file name: the folder is one of the machine that trained the model.
    name = re.split(r"[/\\]", line[1])[-1]
    if name not in prefixes:
        raise FormatError(
            f"checkpoint names {name[:80]}, but {name[:80]}.index is missing; there are "
            f"{join_names(sorted(prefixes)) or 'none'}: fix the line, or remove the file to use the newest"
        )
    return name


def _step(prefix: str) -> int:
    number = re.search(r"-(\d{1,18})$", prefix)
    return int(number[1]) if number else -1


def _open_data(container: Container, prefix: str, shard: int, number: int) -> BinaryIO:
    return container.open(f"{prefix}.data-{shard:05}-of-{number:05}")


def _variables(bundle: Bundle) -> dict[str, str]:
    """The variables of the biLM, by their names in weights.hdf5."""
    variables = {}
    for name in bundle.entries:
        is_optimizer_state = name.rpartition("/")[0] in bundle.entries
        if name.startswith("lm/") and not name.startswith("lm/softmax/") and not is_optimizer_state:
            variables[_dumped_name(name)] = name
    if not variables:
        raise FormatError(
            "contains no model of bilm-tf: no variable begins with lm/; the variables are "
            f"{join_names(sorted(bundle.entries))}"
        )
    return variables


def _dumped_name(variable: str) -> str:
    name = variable.removeprefix("lm/")
    for ours, theirs in (("/multi_rnn_cell/cell_", "/MultiRNNCell/Cell"), ("/lstm_cell/", "/LSTMCell/")):
        name = name.replace(ours, theirs)
    if name.startswith("RNN_"):  # with two directions; with one, the tool leaves the rest unchanged
        name = name.replace("/rnn/", "/RNN/")
        for ours, theirs in (("/projection/kernel", "/W_P_0"), ("/kernel", "/W_0"), ("/bias", "/B")):
            if name.endswith(ours):
                return name.removesuffix(ours) + theirs
    return name


def _read(bundle: Bundle, variables: Mapping[str, str]) -> dict[str, Floats]:
    """The values of variables, under the keys of the mapping."""
    stored = bundle.read(variables.values())
    arrays = {}
    for ours, name in variables.items():
        if stored[name].dtype.kind != "f":
            raise FormatError(f"{name} has the type {stored[name].dtype}; float32 is required")
        arrays[ours] = stored[name].astype(np.float32, copy=False)
    return arrays


def _softmax(bundle: Bundle, prefix: str) -> Mapping[str, Floats]:
    # With share_embedding_softmax, the input table is also the weight of the softmax.
    weight = _SOFTMAX_WEIGHT if _SOFTMAX_WEIGHT in bundle.entries else _WORDS
    with explain_read_errors(prefix), error_context(prefix):
        if weight not in bundle.entries:
            raise FormatError(f"{_SOFTMAX_BIAS} is present, but {_SOFTMAX_WEIGHT} is missing")
        arrays = _read(bundle, {"weight": weight, "bias": _SOFTMAX_BIAS})
        if arrays["weight"].shape[:1] != arrays["bias"].shape:
            raise FormatError(
                f"{weight} has shape {arrays['weight'].shape} and {_SOFTMAX_BIAS} {arrays['bias'].shape}; "
                "both must have a row for each word"
            )
    return arrays
