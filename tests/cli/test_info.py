"""`elmore info`: what a model is, for people and for programs."""

import json
import sys
from pathlib import Path

import pytest
import torch

from elmore import load
from elmore.engine.native_library import native_library
from elmore.engine.open_engine import describe_engines
from elmore.engine.threads import get_threads


def facts(text: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in text.replace("vector size", "size").splitlines())


def test_info_prints_sizes_layers_checksum_and_tokenizer(elmore) -> None:
    ended = elmore("info", "tiny-random")
    assert (ended.code, ended.err) == (0, "")
    told = facts(ended.out.replace("start state", "start"))
    assert told["name"] == "tiny-random"
    assert told["parameters"] == "36,936"
    assert told["layers"] == "3: the words alone, and 2 LSTM layers"
    assert told["size"] == "32 (two directions of 16)"
    assert told["LSTM"] == "48 cells clipped at 3, projected to 16 clipped at 3, with skip connections"
    assert told["input"] == "bytes, up to 48 a word; filters (number x width) 8 x 1, 16 x 2, 24 x 3; 1 highway"
    assert told["tokenizer"] == "moses version 2, en"
    assert told["start"] == "zeros"
    assert told["sha256"] == load("tiny-random").fingerprint()


def test_info_json_has_every_field_of_config_and_card(elmore) -> None:
    told = json.loads(elmore("info", "tiny-random", "--json").out)
    model = load("tiny-random")
    assert told["config"] == json.loads(json.dumps(model.config.to_dict()))
    assert told["card"]["text"] == {
        "tokenizer": "moses",
        "tokenizer_version": 2,
        "language": "en",
        "lowercase": False,
        "escape": False,
    }
    assert (told["dim"], told["num_layers"], told["parameters"]) == (32, 3, 36936)
    assert (told["vocabulary"], told["softmax"], told["mixes"]) == (None, False, 0)
    assert told["sha256"] == model.fingerprint()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("allennlp", ["format hdf5", "vocabulary 458 words", "2 highways"]),
        ("bilm-tf", ["format hdf5", "without skip connections"]),
        ("nlpl/nlpl_like.zip", ["format hdf5"]),
        ("seqvec", ["format hdf5"]),
        ("bilm-tf-checkpoint", ["format tensorflow", "softmax stored"]),
        ("allennlp/simple_tagger_best.th", ["format allennlp", "mixes 1, learned for a task"]),
        ("elmoformanylangs/elmo_word_char", ["format elmoformanylangs", "a table of 12 words and codepoints"]),
        ("elmoformanylangs/elmo_word_only", ["input a table of 12 words"]),
        ("variants/no_projections", ["cells, without skip connections", "0 highways"]),
        ("variants/one_layer", ["2: the words alone, and 1 LSTM layer"]),
        ("variants/unidirectional", ["vector size 8 (forward only)"]),
    ],
)
def test_info_describes_every_format(elmore, fixtures: Path, model: str, expected: list[str]) -> None:
    ended = elmore("info", fixtures / model)
    assert ended.code == 0
    told = " ".join(ended.out.split())
    assert [words for words in expected if words not in told] == []


def test_info_describes_a_pair_of_files(elmore, fixtures: Path) -> None:
    folder = fixtures / "allennlp"
    ended = elmore("info", "--options-file", folder / "options.json", "--weight-file", folder / "lm_weights.hdf5")
    assert load(folder).fingerprint() in ended.out


def test_info_system_describes_this_machine(elmore) -> None:
    found = json.loads(elmore("info", "--system", "--json").out)
    assert {"elmore", "python", "torch", "threads", "devices", "cpu engine", "native", "numpy"} <= found.keys()
    lines = elmore("info", "--system").out.splitlines()
    for name, fact in found.items():
        assert any(line.startswith(name) and line.endswith(str(fact)) for line in lines)
    assert found["threads"] == get_threads()
    assert {name: found[name] for name in describe_engines()} == describe_engines()


def test_info_system_without_native_library_names_the_reason(elmore, monkeypatch) -> None:
    monkeypatch.setattr("elmore.engine.native_library.LIBRARY", Path("nowhere.so"))
    native_library.cache_clear()
    try:
        found = json.loads(elmore("info", "--system", "--json").out)
        assert "not built; install a C++ compiler" in found["native"]
        assert found["cpu engine"] == "numpy"
    finally:
        native_library.cache_clear()


def test_info_system_lists_gpus(elmore, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["elmore.engine.open_engine"], "may_have_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card of {device}")
    found = json.loads(elmore("info", "--system", "--json").out)
    assert found["devices"].startswith("cpu, cuda:0 (card of cuda:0), cuda:1 (card of cuda:1)")


def test_info_without_name_describes_the_default_model(elmore) -> None:
    ended = elmore("info")
    assert ended.code == 0
    assert ended.out.startswith("name         elmore-en\n")
