"""`elmore info`: what a model is, for people and for programs."""

import json
import platform
from pathlib import Path

import pytest
import torch

from elmore import load
from elmore.kernels.native_library import Number, native_library, native_obstacle
from elmore.kernels.selection import describe_kernels, describe_native_kernels


def facts(text: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in text.replace("vector size", "size").splitlines())


def test_it_tells_sizes_layers_format_checksum_and_tokeniser(elmore) -> None:
    ended = elmore("info", "tiny-random")
    assert (ended.code, ended.err) == (0, "")
    told = facts(ended.out.replace("start state", "start"))
    assert told["name"] == "tiny-random"
    assert told["parameters"] == "36,936"
    assert told["layers"] == "3: the words alone, and 2 LSTM layers"
    assert told["size"] == "32 (two directions of 16)"
    assert told["LSTM"] == "48 cells clipped at 3, projected to 16 clipped at 3, with skip connections"
    assert told["reads"] == "bytes, up to 48 a word; filters (number x width) 8 x 1, 16 x 2, 24 x 3; 1 highway"
    assert told["tokenizer"] == "moses, en"
    assert told["start"] == "zeros"
    assert told["sha256"] == load("tiny-random").fingerprint()


def test_json_holds_every_detail_under_the_names_the_code_uses(elmore) -> None:
    told = json.loads(elmore("info", "tiny-random", "--json").out)
    model = load("tiny-random")
    assert told["config"] == json.loads(json.dumps(model.config.to_dict()))
    assert told["card"]["text"] == {
        "tokenizer": "moses",
        "tokenizer_version": 1,
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
        ("bilm-tf-checkpoint", ["format tensorflow", "softmax kept"]),
        ("allennlp/simple_tagger_best.th", ["format allennlp", "mixes 1, learnt for a task"]),
        ("elmoformanylangs/elmo_word_char", ["format elmoformanylangs", "a table of 12 words and codepoints"]),
        ("elmoformanylangs/elmo_word_only", ["reads a table of 12 words"]),
        ("variants/no_projections", ["cells, without skip connections", "0 highways"]),
        ("variants/one_layer", ["2: the words alone, and 1 LSTM layer"]),
        ("variants/unidirectional", ["vector size 8 (forward only)"]),
    ],
)
def test_every_format_is_recognised_and_described(elmore, fixtures: Path, model: str, expected: list[str]) -> None:
    ended = elmore("info", fixtures / model)
    assert ended.code == 0
    told = " ".join(ended.out.split())
    assert [words for words in expected if words not in told] == []


def test_a_pair_is_described_by_its_two_files(elmore, fixtures: Path) -> None:
    folder = fixtures / "allennlp"
    ended = elmore("info", "--options-file", folder / "options.json", "--weight-file", folder / "lm_weights.hdf5")
    assert load(folder).fingerprint() in ended.out


def test_the_machine_is_described_on_request(elmore) -> None:
    ended = elmore("info", "--system")
    assert {"elmore", "python", "torch", "threads", "devices", "kernels"} <= facts(ended.out).keys()
    reading, training = ("reference", "cpu") if native_obstacle(Number.FLOAT32) else ("native", "native-training")
    assert facts(ended.out)["kernels"].startswith(f"on cpu {reading} for reading, {training} for training in float32")
    told = json.loads(elmore("info", "--system", "--json").out)
    assert told["threads"] >= 1
    assert told["kernels"]["cpu"] == describe_kernels(torch.device("cpu"))
    assert told["native kernels"] == describe_native_kernels()


def test_without_native_kernels_it_says_how_to_get_them(elmore, monkeypatch) -> None:
    monkeypatch.setattr("elmore.kernels.native_library.LIBRARY", Path("nowhere.so"))
    native_library.cache_clear()
    try:
        assert "not built; install a C++ compiler" in elmore("info", "--system").out
        assert "on cpu reference for reading" in elmore("info", "--system").out
    finally:
        native_library.cache_clear()


def test_where_native_kernels_are_not_built_for_nobody_is_sent_for_a_compiler(elmore, monkeypatch) -> None:
    monkeypatch.setattr("elmore.kernels.native_library.LIBRARY", Path("nowhere.so"))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    native_library.cache_clear()
    try:
        out = elmore("info", "--system").out
        assert "there are none for aarch64 on Linux, but for x86_64 on Linux only" in " ".join(out.split())
        assert "compiler" not in out
        assert "on cpu reference for reading" in out
    finally:
        native_library.cache_clear()


def test_every_device_that_can_be_used_is_listed_with_its_kernels(elmore, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"Card {device.index}")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr("elmore.kernels.selection.importlib.util.find_spec", lambda _: None)
    told = json.loads(elmore("info", "--system", "--json").out)
    assert told["devices"] == "cpu, cuda:0 Card 0, cuda:1 Card 1, mps"
    assert list(told["kernels"]) == ["cpu", "cuda", "mps"]
    # Without Triton a GPU trains by the same kernels as any other device.
    assert (
        told["kernels"]["cuda"]
        == told["kernels"]["mps"]
        == {
            "reading": "reference",
            "training in float32": "torch",
            "training in bfloat16": "torch",
        }
    )


def test_without_a_name_it_tells_of_the_model_inside(elmore) -> None:
    ended = elmore("info")
    assert ended.code == 0
    assert ended.out.startswith("name         elmore-en\n")
