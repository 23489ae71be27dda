"""The layers of a frozen biLM are read once, and kept on disk as far as there is room."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from elmore.embedding.embedder import Embedder
from elmore.errors import InputWarning
from elmore.tasks.core import assembly
from elmore.tasks.inputs import layer_cache
from elmore.tasks.inputs.layer_cache import LayerCache, LayerReader
from elmore.text.style import TokenizerConfig
from elmore.training.events import Message
from small_tasks import train_small, write_data

SENTENCES = [["I", "took", "a", "bow"], ["Why", "?"], ["They", "slept", "."]]
BYTES_PER_TOKEN = 3 * 32 * 2  # layers, size, float16


@pytest.fixture(scope="module")
def reader() -> LayerReader:
    return LayerReader(Embedder.from_pretrained("tiny-random", device="cpu"))


def test_what_does_not_fit_is_read_again_each_time_and_that_is_said_once(reader, tmp_path):
    cache = LayerCache(reader, tmp_path, max_bytes=7 * BYTES_PER_TOKEN)  # of 9 tokens
    with pytest.warns(InputWarning, match=r"the layers of 1 sentence do not fit into the cache of 0\.0 GiB"):
        cache.add(SENTENCES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.add([*SENTENCES, ["One", "more"]])
    assert sum(file.stat().st_size for file in tmp_path.rglob("vectors.npy")) < 8 * BYTES_PER_TOKEN
    assert cache.contains(SENTENCES[:2])
    assert not cache.contains(SENTENCES)
    for found, read in zip(cache.layers(SENTENCES), reader.layers(SENTENCES), strict=True):
        np.testing.assert_array_equal(found, read)


def test_what_has_no_room_is_counted_whole_where_it_is_read_in_parts(reader, tmp_path, monkeypatch):
    monkeypatch.setattr(layer_cache, "TOKENS_PER_PART", 1)
    with pytest.warns(InputWarning, match="the layers of 2 sentences do not fit") as told:
        parts = list(LayerCache(reader, tmp_path, max_bytes=5 * BYTES_PER_TOKEN).add_in_parts(SENTENCES))
    assert (parts, len(told)) == ([(1, 4), (1, 2), (1, 3)], 1)


def test_what_another_has_added_is_there(reader, tmp_path):
    mine, other = LayerCache(reader, tmp_path), LayerCache(reader, tmp_path)
    assert not mine.contains(SENTENCES)
    other.add(SENTENCES)
    assert mine.contains(SENTENCES)


def test_layers_of_another_token_style_are_others(reader, tmp_path):
    LayerCache(reader, tmp_path).add(SENTENCES)
    penn = LayerReader(reader.embedder, token_style="penn")
    assert not LayerCache(penn, tmp_path).contains(SENTENCES)


def test_layer_cache_keeps_layers_of_another_compute_apart(reader, tmp_path):
    rougher = LayerReader(Embedder.from_pretrained("tiny-random", device="cpu", compute="bfloat16"))
    sentences = [["Why", "?"]]
    LayerCache(reader, tmp_path).add(sentences)
    cache = LayerCache(rougher, tmp_path)
    assert not cache.contains(sentences)
    cache.add(sentences)
    for given in (reader, rougher):
        (layers,) = LayerCache(given, tmp_path).layers(sentences)
        np.testing.assert_array_equal(layers, given.layers(sentences)[0])


def test_layer_cache_of_another_tokenizer_version_is_separate(reader, tmp_path):
    model = reader.embedder.model
    readers = [
        LayerReader(
            Embedder(model.with_card(replace(model.card, text=TokenizerConfig(tokenizer_version=version)))),
            token_style="ud",
        )
        for version in (1, 2)
    ]
    LayerCache(readers[0], tmp_path).add([[":-)"]])
    np.testing.assert_array_equal(
        LayerCache(readers[1], tmp_path).layers([[":-)"]])[0], readers[1].layers([[":-)"]])[0]
    )
    assert not LayerCache(readers[1], tmp_path).contains([[":-)"]])


def test_a_model_is_the_same_whatever_of_its_layers_was_cached(tmp_path, monkeypatch):
    data = write_data(tmp_path)["ner"]
    train_small("ner", tmp_path / "cached", data, training__epochs=2)
    monkeypatch.setattr(
        assembly, "LayerCache", lambda reader, folder: LayerCache(reader, folder, max_bytes=10 * BYTES_PER_TOKEN)
    )
    with pytest.warns(InputWarning, match="are computed again on each use"):
        train_small("ner", tmp_path / "bounded", data, training__epochs=2)
    weights = [(tmp_path / run / "model/model.safetensors").read_bytes() for run in ("cached", "bounded")]
    assert weights[0] == weights[1]


def test_that_the_bilm_reads_is_told_only_where_it_does(tmp_path):
    data = write_data(tmp_path)["ner"]

    def told(run: str) -> list[str]:
        recipe = {"elmo.model": "tiny-random", "task.hidden": [4], "training.epochs": 1, "words.min_count": 1}
        from elmore.tasks.core.training_run import train

        events = train(
            "ner", tmp_path / run, train=data, dev=data, recipe=recipe, cache=tmp_path / "cache", device="cpu"
        )
        return [str(event) for event in events if isinstance(event, Message)]

    assert told("first") == ["the biLM encodes all sentences once; their layers are cached for training"]
    assert told("second") == []
