"""Thousands of damaged models: each is read, or refused with a word. None crashes, hangs or fails in another way.

They are read in a child process, so that a crash is seen as one. To look at a case again, run this file with the folder
of models and the number that a failure names:

    python tests/formats/test_fuzz.py FOLDER NUMBER
"""

import faulthandler
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.config import CharacterConfig, ModelConfig, tensor_shapes
from elmore.errors import ElmoreError
from elmore.formats import Checkpoint, all_formats, read_checkpoint, write_checkpoint
from elmore.formats.bilm_hdf5 import HDF5
from elmore.formats.storage.container import open_container
from elmore.text.vocabulary import Vocabulary

SECONDS = 20  # for one model, on a busy machine
MEMORY = 8 << 30  # address space, of which torch alone takes much

Model = Mapping[str, bytes]  # the files of one model


def test_damaged_models_are_read_or_refused(models: Path) -> None:
    outcomes = read_damaged(models, start=0, count=2_500)
    assert {name.partition(" ")[0] for name in outcomes} == {path.name for path in models.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("start", range(10_000, 110_000, 10_000))
def test_many_more_damaged_models_are_read_or_refused(models: Path, start: int) -> None:
    read_damaged(models, start=start, count=10_000)


def test_the_undamaged_models_are_read(models: Path) -> None:
    for path in models.iterdir():
        files = list(path.iterdir())
        checkpoint = read_checkpoint(open_container(files[0] if len(files) == 1 else path))
        if checkpoint.softmax:
            checkpoint.softmax()


def read_damaged(models: Path, *, start: int, count: int) -> Counter[str]:
    """Have a child read so many damaged models; how many of each kind were read, and how many refused."""
    command = [sys.executable, __file__, str(models), str(start), str(count)]
    child = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace", timeout=120)
    *cases, last = child.stdout.splitlines() or [""]
    assert child.returncode == 0, f"case {last or cases[-1:]} ended the process: {child.stderr[-3000:]}"
    outcomes: Counter[str] = Counter(json.loads(last))
    assert outcomes.total() == count
    failed = [name for name in outcomes if not name.endswith((" read", " refused"))]
    assert not failed, child.stderr[-3000:]
    return outcomes


# The models: as few numbers as possible, so that most damage hits the structure of a file.


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each model, in every format and packing."""
    place = tmp_path_factory.mktemp("models")
    words = Vocabulary(["<S>", "</S>", "<UNK>", "a"])
    bare = checkpoint(CHARACTERS, vocabulary=words)
    softmax = {"weight": zeros(4, 2), "bias": zeros(4)}
    start = {"h": zeros(2, 2, 2), "c": zeros(2, 2, 3)}
    mixes = {"mixes.0.scalars": zeros(3), "mixes.0.gamma": zeros()}
    everything = replace(bare, softmax=lambda: softmax, start=start, mixes=mixes)
    for form in all_formats():
        if form.write is not None:
            write_checkpoint(bare if form is HDF5 else everything, place / form.name, format=form.name)
    write_checkpoint(checkpoint(WORDS, vocabulary=words), place / "words", format="hdf5")
    rewrite_hdf5(place / "hdf5", place / "chunked", chunks=True)
    rewrite_hdf5(place / "hdf5", place / "gzipped", compression="gzip", shuffle=True)
    write_tensorflow(place / "tensorflow")
    write_many_languages(place / "elmoformanylangs", old=True)
    write_many_languages(place / "elmoformanylangs-zip", old=False)
    write_state_dict(place / "allennlp")
    for name, packing in (("hdf5", "zip"), ("folder", "zip"), ("hdf5", "gztar"), ("folder", "xztar"), ("words", "tar")):
        (place / f"{name}-{packing}").mkdir()
        shutil.make_archive(str(place / f"{name}-{packing}" / "model"), packing, place, name)
    return place


CHARACTERS = ModelConfig(
    characters=CharacterConfig(embedding_dim=1, filters=((1, 2), (2, 1)), num_highways=1), vector_dim=2, cell_dim=3
)
WORDS = replace(CHARACTERS, characters=None, vocab_size=4, word_embedding_dim=2, token_projection=False)


def checkpoint(config: ModelConfig, **parts: Any) -> Checkpoint:
    drawn = np.random.default_rng(0)
    tensors = {name: drawn.standard_normal(shape, np.float32) for name, shape in tensor_shapes(config).items()}
    return Checkpoint(config=config, tensors=tensors, **parts)


def zeros(*shape: int) -> NDArray[np.float32]:
    return np.zeros(shape, np.float32)


def rewrite_hdf5(source: Path, target: Path, **how: Any) -> None:
    import h5py

    shutil.copytree(source, target)
    with h5py.File(source / "weights.hdf5") as old, h5py.File(target / "weights.hdf5", "w") as new:
        names: list[str] = []
        old.visit(names.append)
        for name in names:
            if isinstance(old[name], h5py.Dataset):
                new.create_dataset(name, data=old[name][()], **how)


def write_tensorflow(path: Path) -> None:
    from elmore.formats.bilm_arrays import arrays_from_tensors
    from elmore.formats.options_json import options_from_config
    from reference.tensorflow_bundle import as_array, write_checkpoint_files

    path.mkdir()
    (path / "options.json").write_text(json.dumps(options_from_config(CHARACTERS)))
    variables = {
        "lm/softmax/W": as_array([[1, 2], [3, 4]]),
        "lm/softmax/b": as_array([0, 0]),
        "global_step": as_array(7),
    }
    for name, values in arrays_from_tensors(CHARACTERS, checkpoint(CHARACTERS).tensors):
        for theirs, ours in TENSORFLOW_NAMES.items():
            name = name.replace(theirs, ours)  # noqa: PLW2901
        variables[f"lm/{name}"] = as_array(values)
    write_checkpoint_files(path, variables)


TENSORFLOW_NAMES = {
    "/RNN/MultiRNNCell/Cell": "/rnn/multi_rnn_cell/cell_",
    "/LSTMCell/W_P_0": "/lstm_cell/projection/kernel",
    "/LSTMCell/W_0": "/lstm_cell/kernel",
    "/LSTMCell/B": "/lstm_cell/bias",
}


def write_many_languages(path: Path, *, old: bool) -> None:
    from reference.random_models import random_many_languages

    cnn = {"activation": "relu", "filters": [[1, 2]], "n_highway": 1, "max_characters_per_token": 9}
    config = {
        "token_embedder": {"name": "cnn", "word_dim": 2, "char_dim": 1, **cnn},
        "encoder": {"name": "elmo", "projection_dim": 2, "dim": 3, "n_layers": 2, "cell_clip": 3, "proj_clip": 3},
    }
    model = random_many_languages(0, config, words=["a"], letters=["a", "b"])
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"config_path": "/home/somebody/net.json"}))
    (path / "net.json").write_text(json.dumps(config))
    for name, ids in (("word.dic", model.words), ("char.dic", model.characters)):
        (path / name).write_text("".join(f"{key}\t{number}\n" for key, number in ids.items()))
    for name, arrays in (("token_embedder.pkl", model.token_embedder), ("encoder.pkl", model.encoder)):
        tensors = {key: torch.tensor(values, dtype=torch.float32) for key, values in arrays.items()}
        torch.save(tensors, path / name, _use_new_zipfile_serialization=not old)


def write_state_dict(path: Path) -> None:
    """A task's state dict, as AllenNLP names what is in it; the numbers do not matter."""
    shapes: dict[str, tuple[int, ...]] = {"_char_embedding_weights": (262, 1)}
    for i, (width, number) in enumerate(((1, 2), (2, 1))):
        shapes |= {f"char_conv_{i}.weight": (number, 1, width), f"char_conv_{i}.bias": (number,)}
    shapes |= {"_highways._layers.0.weight": (6, 3), "_highways._layers.0.bias": (6,)}
    shapes |= {"_projection.weight": (2, 3), "_projection.bias": (2,)}
    state: dict[str, Tensor] = {f"elmo._elmo_lstm._token_embedder.{name}": torch.ones(s) for name, s in shapes.items()}
    for direction in ("forward", "backward"):
        for layer in range(2):
            place = f"elmo._elmo_lstm._elmo_lstm.{direction}_layer_{layer}"
            state[f"{place}.input_linearity.weight"] = torch.ones(12, 2)
            state[f"{place}.state_linearity.weight"] = torch.ones(12, 2)
            state[f"{place}.state_linearity.bias"] = torch.ones(12)
            state[f"{place}.state_projection.weight"] = torch.ones(2, 3)
    path.mkdir()
    torch.save(state, path / "best.th")


# The damage


def damaged(models: Mapping[str, Model], chance: random.Random) -> tuple[str, Model]:
    """One of the models with something wrong in it, and its name."""
    name = chance.choice(sorted(models))
    files = dict(models[name])
    victim = chance.choice(sorted(files))
    kind = chance.random()
    if kind < 0.04:
        del files[victim]
    elif kind < 0.10:
        other = models[chance.choice(sorted(models))]
        files[victim] = other[chance.choice(sorted(other))]
    else:
        for _ in range(chance.choice([1, 1, 1, 2, 4])):
            files[victim] = mutated(files[victim], chance)
    return name, files


NUMBERS = [0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]


def mutated(content: bytes, chance: random.Random) -> bytes:
    if not content:
        return chance.randbytes(chance.choice([0, 1, 100]))
    # The beginning and the end of a file hold more of its structure than the middle.
    edge = chance.randrange(min(512, len(content)))
    at = chance.choice([chance.randrange(len(content)), edge, len(content) - 1 - edge])
    other = chance.randrange(len(content))
    size = chance.choice([1, 2, 4, 8, 16, 64, 512])
    piece = content[other : other + size]
    match chance.choice(
        ["cut", "bit", "byte", "number", "swap", "copy", "zero", "insert", "remove", "digits", "random"]
    ):
        case "cut":
            return content[:at]
        case "bit":
            new = bytes([content[at] ^ 1 << chance.randrange(8)])
        case "byte":
            new = bytes([(content[at] + chance.choice([1, -1, chance.randrange(256)])) % 256])
        case "number":
            new = (chance.choice(NUMBERS) % 256**size).to_bytes(size, "little")
        case "swap":
            first, second = sorted((at // size * size, other // size * size))
            a, b = content[first : first + size], content[second : second + size]
            return content[:first] + b + content[first + size : second] + a + content[second + size :]
        case "copy":
            new = piece
        case "zero":
            new = bytes(size)
        case "insert":
            return content[:at] + piece + content[at:]
        case "remove":
            return content[:at] + content[at + size :]
        case "digits":
            return content[:at] + re.sub(rb"\d+", str(chance.choice(NUMBERS)).encode(), content[at:], count=1)
        case _:
            new = chance.randbytes(size)
    return content[:at] + new + content[at + len(new) :]


# The child


def main(place: Path, start: int, count: int) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    models = {path.name: {file.name: file.read_bytes() for file in path.iterdir()} for path in sorted(place.iterdir())}
    outcomes: Counter[str] = Counter()
    for number in range(start, start + count):
        print(number, flush=True)
        name, files = damaged(models, random.Random(number))
        with tempfile.TemporaryDirectory() as scratch:
            for file, content in files.items():
                Path(scratch, file).write_bytes(content)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            outcomes[f"{name} {outcome(Path(scratch))}"] += 1
            faulthandler.cancel_dump_traceback_later()
    print(json.dumps(outcomes))


def outcome(path: Path) -> str:
    files = list(path.iterdir())
    try:
        checkpoint = read_checkpoint(open_container(files[0] if len(files) == 1 else path))
        if checkpoint.softmax:
            checkpoint.softmax()
        return "read"
    except ElmoreError as error:
        return "refused" if str(error) else "refused without a word"
    except BaseException as error:  # noqa: BLE001 (whatever it is, it should not have been)
        traceback.print_exc()
        return f"failed with {type(error).__name__}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
