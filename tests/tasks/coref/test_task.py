"""Coreference: whole documents in, clusters with places out; training reads parts that its step decides."""

from pathlib import Path

import numpy as np
import pytest
import torch

import small_tasks
from elmore.errors import InputError, InputWarning
from elmore.tasks.core.config import TrainingOptions
from elmore.tasks.core.trained_model import TrainedModel, load
from elmore.tasks.core.trainer import TaskTraining
from elmore.tasks.coref.task import (
    COREF,
    CorefExample,
    CorefOptions,
    CorefRecipe,
    sample_sentences,
    slice_sentences,
    split_document,
)
from elmore.tasks.readers.conll2012 import Mention, document_columns, mentions, read_conll2012

TEXT = "John saw Mary. She likes his dog.\nIt barks."
DOCUMENT = CorefExample(
    [["a", "b"], ["c"], ["d", "e", "f"], ["g"]],
    [Mention(1, 0, 1), Mention(1, 2, 3), Mention(2, 3, 5), Mention(1, 6, 7)],
    document="a.conll, line 1",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return small_tasks.write_data(tmp_path_factory.mktemp("data"))["coref"]


@pytest.fixture(scope="module")
def run(data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "coref"
    small_tasks.train_small("coref", folder, data)
    return folder


@pytest.fixture(scope="module")
def model(run) -> TrainedModel:
    return load(run, device="cpu")


def test_a_document_is_an_example_with_the_mentions_of_all_its_sentences(data):
    first, second = COREF.read([data], CorefOptions(), to_train=True).examples
    assert [len(tokens) for tokens in first.sentences] == [4, 5, 3]
    assert first.mentions[:5] == [
        Mention(0, 0, 1),
        Mention(1, 2, 3),
        Mention(1, 4, 5),
        Mention(2, 6, 8),
        Mention(0, 6, 7),
    ]
    assert second.document.endswith("clusters.conll, line 18")


def test_clusters_of_a_raw_text_come_with_their_places(model):
    [result] = model.predict([TEXT])
    assert [[one.text for one in cluster] for cluster in result.clusters] == [
        ["John", "his"],
        ["Mary", "She"],
        ["his dog", "It"],
    ]
    for one in (one for cluster in result.clusters for one in cluster):
        assert TEXT[one.start : one.end] == one.text
    assert result.sentences == (4, 5, 3)


def test_what_is_printed_can_be_read_again(model, tmp_path):
    [result] = model.predict([TEXT])
    (tmp_path / "out.conll").write_text(f"{result}\n")
    [document] = read_conll2012(tmp_path / "out.conll")
    assert (document.name, document.sentences[0].rows[0][0]) == ("text 1", "text_1")
    assert [sentence.tokens for sentence in document.sentences][1] == ["She", "likes", "his", "dog", "."]
    assert mentions(document.sentences[1]) == [Mention(1, 0, 1), Mention(2, 2, 4), Mention(0, 2, 3)]


def test_predictions_are_the_same_alone_and_among_others(model):
    texts = [TEXT, "Paris is old. Mary likes it.", "Hm"]
    assert model.predict(texts) == [model.predict([text])[0] for text in texts]


def test_a_text_without_words_has_no_clusters(model):
    [result] = model.predict([" "])
    assert (result.clusters, result.sentences) == ((), ())


def test_a_part_has_its_own_mentions_by_its_own_words():
    part = slice_sentences(DOCUMENT, 1, 3)
    assert part.sentences == [["c"], ["d", "e", "f"]]
    assert part.mentions == [Mention(1, 0, 1), Mention(2, 1, 3)]
    assert (part.first, slice_sentences(part, 1, 2).first) == (2, 3)


def test_a_document_that_is_too_long_is_read_in_parts_and_that_is_said():
    with pytest.warns(
        InputWarning, match=r"a.conll, line 1: has 7 words and is processed in 3 parts of at most 3; clusters"
    ):
        parts = split_document(DOCUMENT, max_words=3)
    assert [part.sentences for part in parts] == [[["a", "b"], ["c"]], [["d", "e", "f"]], [["g"]]]
    assert [part.first for part in parts] == [0, 3, 6]
    assert split_document(DOCUMENT, max_words=7) == [DOCUMENT]
    # Cluster 1 is in three parts: found in pieces, it is scored as one of the document.
    score = COREF.metric.score(parts, [[[(0, 1), (2, 3)]], [], []])
    whole = COREF.metric.score([DOCUMENT], [[[(0, 1), (2, 3)]]])
    assert score.parts == whole.parts
    assert score.parts["muc.recall"] == 50


def test_long_raw_text_is_read_in_parts_too(model, monkeypatch):
    monkeypatch.setattr("elmore.tasks.coref.task.MAX_WORDS", 9)
    with pytest.warns(InputWarning, match="^text 1: has 12 words and is processed in 2 parts"):
        [result] = model.predict([TEXT])
    assert result.sentences == (4, 5, 3)
    assert all(TEXT[one.start : one.end] == one.text for cluster in result.clusters for one in cluster)


def test_the_score_is_that_without_clusters_of_one_mention_and_the_other_stands_beside():
    # One cluster of two words, which is found, and one of one word, which is not.
    found = [[[(0, 1), (2, 3), (6, 7)]]]
    score = COREF.metric.score([DOCUMENT], found)
    assert (score.metric, score.value) == ("CoNLL F1", 100)
    assert score.parts["with_singletons"] < 100
    assert score.parts["with_singletons.b_cubed.recall"] == pytest.approx(75)
    assert "with clusters of one mention: " in score.table


def test_what_documents_count_makes_up_the_score():
    draw = np.random.default_rng(1)
    examples, predictions = [], []
    for number in range(4):
        gold = [Mention(int(cluster), start, start + 1) for start, cluster in enumerate(draw.integers(0, 4, 12))]
        examples.append(CorefExample([["word"] * 14], gold, document=f"document {number}"))
        # Of fourteen spans, two of them no mentions.
        response = draw.integers(0, 5, 14)
        predictions.append([[(int(at), int(at) + 1) for at in np.flatnonzero(response == one)] for one in range(5)])
    rows = COREF.metric.rows(examples, predictions).values
    for documents in ([0], [1], [0, 2, 3], [3, 3, 1, 0]):
        score = COREF.metric.score(
            [examples[n]._replace(document=f"{at}") for at, n in enumerate(documents)],
            [predictions[n] for n in documents],
        )
        assert 0 < score.value < 100
        assert COREF.metric.value(rows[documents]) == pytest.approx(score.value)


def test_which_sentences_a_step_reads_follows_from_seed_and_step():
    options = CorefOptions(max_sentences=2)
    parts = [sample_sentences(DOCUMENT, options, np.random.default_rng([1, step])) for step in range(30)]
    assert {part.first for part in parts} == {0, 2, 3}  # of all three places
    assert all(len(part.sentences) == 2 for part in parts)
    assert parts == [sample_sentences(DOCUMENT, options, np.random.default_rng([1, step])) for step in range(30)]
    assert sample_sentences(DOCUMENT, CorefOptions(max_sentences=4), np.random.default_rng(1)) is DOCUMENT


def test_training_reads_what_is_drawn(model, data, monkeypatch):
    examples = COREF.read([data], CorefOptions(), to_train=True).examples
    training = TaskTraining(model.assembled, train=examples, dev=examples)
    drawn = []
    monkeypatch.setattr(
        training,
        "task",
        training.task.__class__(
            **{**vars(training.task), "draw_part": lambda one, *_: drawn.append(one) or slice_sentences(one, 0, 1)}
        ),
    )
    batches = [batch for _, batch in training._batches_ahead(0, 2, ())]
    assert sorted(len(one.sentences) for one in drawn) == [2, 3]
    assert [len(batch.inputs[0].lengths) for batch in batches] == [1, 1]


def test_what_cannot_be_learnt_from_is_refused():
    with pytest.raises(InputError, match="no cluster of the training data has two mentions"):
        COREF.labels([CorefExample([["a"]], [Mention(1, 0, 1)])], CorefOptions())
    with pytest.raises(
        InputError, match=r"training\.batch_size is 2; coref trains on one document per step: set it to 1"
    ):
        CorefRecipe(training=TrainingOptions(batch_size=2))
    with pytest.raises(InputError, match="scorer_hidden is empty"):
        CorefOptions(scorer_hidden=())


def test_documents_without_sentences_are_left_out_and_counted(tmp_path, data):
    (tmp_path / "a.conll").write_text("#begin document (a); part 000\n#end document\n" + data.read_text())
    examples, notices = COREF.read([tmp_path / "a.conll"], CorefOptions(), to_train=True)
    assert (len(examples), notices) == (2, ("left out 1 document without sentences",))


# Two that cross, two of the same words, and one of eleven.
ODD = ["(1", "(2", "1)", "2)", "(1)", "(3|(4", "3)|4)", "(3)", "(2", *["-"] * 9, "2)"]


def test_mentions_that_cannot_be_found_are_counted_and_explained(model, tmp_path):
    rows = [f"d 0 {number} w{number} - * - - - - * {cell}" for number, cell in enumerate(ODD)]
    file = tmp_path / "odd.conll"
    file.write_text("\n".join(["#begin document (d); part 000", *rows, "", "#end document", ""]))
    [example], notices = COREF.read([file], CorefOptions(max_width=10), to_train=True)
    assert len(example.mentions) == 7
    assert notices == (
        "1 mention of more than 10 words cannot be predicted (task.max_width)",
        "1 mention overlaps another without nesting; the model predicts at most one of them",
        "1 mention is also in another cluster with the same words: training uses the last cluster",
    )
    assert "the model predicts one cluster for each span" in model.evaluate(file).notices[-1]
    assert not COREF.read([file], CorefOptions(max_width=11), to_train=True).notices[0].startswith("1 mention has more")


def test_the_official_file_has_the_documents_of_the_key_and_the_clusters_that_are_scored(
    model, data, tmp_path, monkeypatch
):
    # Two sentences, which have clusters; the parts of a document are put together again.
    monkeypatch.setattr("elmore.tasks.coref.task.MAX_WORDS", 9)
    with pytest.warns(InputWarning, match="parts of at most 9"):
        written = model.official_predictions(data)
    file = tmp_path / "response.conll"
    file.write_text(written, encoding="utf-8")
    key, response = (list(read_conll2012([one])) for one in (data, file))
    assert [(one.name, one.part) for one in response] == [(one.name, one.part) for one in key]
    for one, other in zip(key, response, strict=True):
        assert [own.tokens for own in one.sentences] == [own.tokens for own in other.sentences]
    with pytest.warns(InputWarning, match="parts of at most 9"):
        examples = COREF.read([data], CorefOptions(), to_train=False).examples
    expected = {
        (part.document, start + part.first, end + part.first)
        for part, clusters in zip(examples, model.predict_examples(examples), strict=True)
        for cluster in clusters
        for start, end in cluster
    }
    assert expected
    read_again = set()
    for one, other in zip(key, response, strict=True):
        firsts = np.cumsum([0, *(len(own.tokens) for own in other.sentences)])
        for first, own in zip(firsts, other.sentences, strict=False):
            read_again |= {(one.location, first + mention.start, first + mention.end) for mention in mentions(own)}
    assert read_again == expected


def test_a_document_that_is_given_twice_is_written_twice(model, tmp_path):
    file = tmp_path / "one.conll"
    file.write_text(document_columns([["John", "saw", "Mary", "."], ["She", "slept", "."]], [Mention(1, 0, 1)]))
    once = model.official_predictions(file)
    assert "(0)" in once
    assert model.official_predictions([file, file]) == f"{once}\n{once}"


def test_data_without_clusters_is_refused_where_it_would_be_scored(model, tmp_path):
    file = tmp_path / "none.conll"
    file.write_text("#begin document (d); part 000\nd 0 0 Hello - * - - - - * -\n#end document\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"none\.conll, line 1: no cluster from here on has two mentions"):
        model.evaluate(file)


def test_a_very_long_sentence_is_not_what_all_others_are_padded_to(model, monkeypatch):
    maker, network = model.assembled.maker, model.assembled.model
    sentences = [["John", "saw", "Mary", "."], ["She"], ["It", "barks"] * 20, ["He", "barks", "."], ["John", "barks"]]
    document = CorefExample(sentences)
    together = maker.batch([document])
    monkeypatch.setattr("elmore.tasks.core.batching.MAX_PADDED_TOKENS", 20)
    apart = maker.batch([document])
    assert [one.lengths for one in together.inputs] == [(4, 1, 40, 3, 2)]
    assert [one.lengths for one in apart.inputs] == [(4, 1), (40,), (3, 2)]
    found, expected = (network._tokens(batch) for batch in (apart, together))
    assert found.lengths == expected.lengths
    torch.testing.assert_close(found[:2], expected[:2], rtol=1e-5, atol=1e-5)
    assert network.predict(apart) == network.predict(together)
