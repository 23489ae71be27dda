"""Senses of words are learnt from their uses, by nearest means and by a classifier over each lemma's senses."""

import json
from pathlib import Path

import pytest
import torch

from elmore.errors import InputError, NotFound
from elmore.tasks.core.events import Configured, Finished, Fitted, Fitting
from elmore.tasks.core.trained_model import TrainedModel, load
from elmore.tasks.core.training_run import train
from elmore.tasks.senses.wsd import LinearSense, NearestSense, PredictedSense, SenseSentence
from elmore.tasks.senses.wsd_reader import WsdInstance
from elmore.training.events import Stopped
from small_senses import BEND, GREETING, SENTENCES, SMALL, WEAPON, train_small, write_index, write_wsd

METHODS = ("nearest", "linear")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_wsd(tmp_path_factory.mktemp("data"), "small", SENTENCES)


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    index = write_index(data.parent)
    for method in METHODS:
        train_small("wsd", folder / method, data, task__method=method, task__sense_index=str(index))
    index.unlink()  # what is needed of it lies in the models
    return {method: folder / method for method in METHODS}


@pytest.mark.parametrize("method", METHODS)
def test_both_methods_learn_a_handful(method, data, runs):
    score = load(runs[method], device="cpu").evaluate(data)
    assert score.value == 100
    assert score.parts["VERB.gold"] == 1
    assert isinstance(load(runs[method]).assembled.model, {"nearest": NearestSense, "linear": LinearSense}[method])


# Vectors of words that are worked out by hand: uses of a lemma differ by their words alone.
VECTORS = "bow 1 0\nbows 0.6 0.8\nprow 0 1\nmiddle 1 1\nnear 3 4\nfar 1 -1\nother 0 0.5\nodd 0.1 0.7\n"


def hand_made(folder: Path, train: list, dev: list | None = None, **more) -> NearestSense:
    """A model of nearest means on these vectors alone."""
    (folder / "vectors.txt").write_text(VECTORS)
    train_small(
        "wsd",
        folder / "run",
        write_wsd(folder, "train", train),
        dev=write_wsd(folder, "dev", dev or train),
        elmo__where="none",
        words__vectors=str(folder / "vectors.txt"),
        words__min_count=9,
        task__sense_index=str(write_index(folder)),
        **more,
    )
    model = load(folder / "run", device="cpu").assembled.model
    assert isinstance(model, NearestSense)
    return model


def target(lemma: str, pos: str = "NOUN", start: int = 0, end: int = 1) -> WsdInstance:
    return WsdInstance("t", lemma, pos, start, end, ())


def senses(folder: Path, *examples: SenseSentence) -> list[PredictedSense]:
    found: list[list[PredictedSense]] = load(folder / "run", device="cpu").predict_examples(examples)
    return [one for own in found for one in own]


USES = [
    [("bow", "bow", "NOUN", GREETING), ("bows", "bow", "NOUN", GREETING)],
    [("prow", "bow", "NOUN", WEAPON), ("prow", "bow", "NOUN", WEAPON)],
]


def test_a_sense_is_the_mean_of_its_uses_and_the_nearest_is_taken(tmp_path):
    model = hand_made(tmp_path, USES)
    # By hand: ((1, 0) + (0.6, 0.8)) / 2 and ((0, 1) + (0, 1)) / 2; WordNet's order of the two senses.
    assert model.inventory.keys == (GREETING, WEAPON)
    torch.testing.assert_close(model.centroids, torch.tensor([[0.8, 0.4], [0.0, 1.0]]))
    assert model.counts.tolist() == [2, 2]
    # By hand, with (0.8, 0.4) of length 0.894: (3, 4) has cosines 0.894 and 0.8, though the products are 4 and 4;
    # (0, 0.5) has 0.447 and 1.
    found = senses(tmp_path, SenseSentence(["near"], [target("bow")]), SenseSentence(["other"], [target("bow")]))
    assert found == [PredictedSense(GREETING), PredictedSense(WEAPON)]


def test_a_use_with_two_gold_senses_counts_for_both(tmp_path):
    model = hand_made(tmp_path, [*USES, [("far", "bow", "NOUN", f"{WEAPON} {GREETING}")]])
    # By hand: (1.6 + 1, 0.8 - 1) / 3 and (0 + 1, 2 - 1) / 3.
    torch.testing.assert_close(model.centroids, torch.tensor([[2.6, -0.2], [1.0, 1.0]]) / 3)


def test_of_equally_near_senses_wordnets_first_is_taken(tmp_path):
    hand_made(tmp_path, [[("bow", "bow", "NOUN", GREETING)], [("prow", "bow", "NOUN", WEAPON)]])
    # (1, 1) is as near to (1, 0) as to (0, 1); by its key the weapon would come first.
    assert senses(tmp_path, SenseSentence(["middle"], [target("bow")])) == [PredictedSense(GREETING)]
    assert WEAPON < GREETING


def test_the_mean_of_equal_vectors_is_that_vector(tmp_path):
    # Ten times 0.1 and 0.7 do not add up to 1 and 7 in float32, and the nearer of two equal means would be chance.
    uses = [[("odd", "bow", "NOUN", WEAPON)], *([("odd", "bow", "NOUN", GREETING)] for _ in range(10))]
    model = hand_made(tmp_path, uses)
    assert model.centroids[0].tolist() == model.centroids[1].tolist()
    assert senses(tmp_path, SenseSentence(["odd"], [target("bow")])) == [PredictedSense(GREETING)]


def test_several_tokens_have_the_mean_of_their_vectors(tmp_path):
    model = hand_made(tmp_path, [[("bow prow", "bow", "NOUN", GREETING)], [("prow", "bow", "NOUN", WEAPON)]])
    torch.testing.assert_close(model.centroids, torch.tensor([[0.5, 0.5], [0.0, 1.0]]))
    # (1, 0) and (0, 1) together are nearest to (0.5, 0.5); prow alone to itself.
    example = SenseSentence(["prow", "bow"], [target("bow", end=2), target("bow")])
    assert senses(tmp_path, example) == [PredictedSense(GREETING), PredictedSense(WEAPON)]


def test_a_lemma_that_was_not_in_training_has_wordnets_first_sense(tmp_path):
    hand_made(tmp_path, USES)
    lemmas = [target("stern"), target("bow", "VERB"), target("Take a bow", "VERB"), target("keel"), target("bow")]
    found = senses(tmp_path, SenseSentence(["bow"], lemmas))
    assert found == [
        PredictedSense("stern%1:06:00::", is_first_sense=True),
        PredictedSense(BEND, is_first_sense=True),
        PredictedSense("take_a_bow%2:32:00::", is_first_sense=True),
        PredictedSense(None, is_first_sense=True),
        PredictedSense(GREETING),
    ]


def test_a_sense_that_was_not_drawn_is_not_looked_for(tmp_path):
    model = hand_made(tmp_path, USES, training__fraction=0.5)
    drawn = model.counts.tolist()
    assert sorted(drawn) == [0, 2]
    expected = [GREETING, WEAPON][drawn.index(2)]
    words = [SenseSentence([word], [target("bow")]) for word in ("bow", "prow")]
    assert senses(tmp_path, *words) == [PredictedSense(expected)] * 2


def test_an_unanswered_target_lowers_recall_alone(tmp_path):
    hand_made(tmp_path, USES)
    test = write_wsd(tmp_path, "test", [[("bow", "bow", "NOUN", GREETING), ("keel", "keel", "NOUN", "keel%1:06:00::")]])
    score = load(tmp_path / "run", device="cpu").evaluate(test)
    assert (score.parts["precision"], score.parts["recall"]) == (100, 50)


def test_several_files_are_several_sets(data, runs, tmp_path):
    wrong = write_wsd(tmp_path, "wrong", [["A", ("bow", "bow", "NOUN", "bow%1:06:01::")]])
    (tmp_path / "other").mkdir()
    same_name = write_wsd(tmp_path / "other", "small", SENTENCES)
    score = load(runs["nearest"], device="cpu").evaluate([data, wrong, same_name])
    assert score.parts["wrong.f1"] == 0
    assert score.parts[f"{data}.f1"] == score.parts[f"{same_name}.NOUN.f1"] == 100
    assert score.parts["gold"] == 11


def test_the_layer_is_chosen_on_the_dev_set_and_all_scores_are_told(data, tmp_path):
    index = str(write_index(tmp_path))
    events = train_small("wsd", tmp_path / "all", data, task__sense_index=index)
    opened, fitted, finished = events
    assert isinstance(opened, Configured)
    assert isinstance(fitted, Fitted)
    assert isinstance(finished, Finished)
    assert "small: 1 sentence without a target left out" in str(opened)
    assert "0 parameters to train" in str(opened)
    scores = {name: score.value for name, score in fitted.fit.scores.items()}
    assert list(scores) == ["layer 0", "layer 1", "layer 2"]
    # In the context-free layer both nouns are the same vector, and so all are WordNet's first: 3 of 5 are right.
    assert scores == {"layer 0": pytest.approx(60), "layer 1": 100, "layer 2": 100}
    assert str(fitted) == "dev F1: layer 0 60.00; layer 1 100.00; layer 2 100.00; taken is layer 1"
    assert "epoch" not in str(finished)
    assert finished.mixes["input"].weights == (0, 1, 0)
    card = json.loads((tmp_path / "all/model/task.json").read_text())
    assert card["training"] == {"examples": 5, "dev_scores": scores, "chosen": "layer 1"}


def test_a_layer_that_is_given_is_taken(data, tmp_path):
    events = train_small("wsd", tmp_path / "run", data, elmo__layers=0, task__sense_index=str(write_index(tmp_path)))
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.score.value == pytest.approx(60)
    assert load(tmp_path / "run", device="cpu").evaluate(data).value == pytest.approx(60)


MARKED = "The actors took a [bow|bow|NOUN]. They [bow|bow|VERB] to no one, and the [stern|stern|NOUN] is empty."


@pytest.mark.parametrize("method", METHODS)
def test_marked_words_of_a_text_get_their_senses(method, runs):
    model = load(runs[method], device="cpu")
    [result] = model.predict([MARKED])
    assert result.text == "The actors took a bow. They bow to no one, and the stern is empty."
    assert [(one.text, one.sense, one.is_first_sense) for one in result.senses] == [
        ("bow", GREETING, False),
        ("bow", BEND, False),
        ("stern", "stern%1:06:00::", True),
    ]
    assert all(result.text[one.start : one.end] == one.text for one in result.senses)
    assert str(result).startswith(f"The actors took a [bow|{GREETING}]. They [bow|")


def given_tokens(model: TrainedModel, tokens: list[str], *targets: dict) -> list[str | None]:
    [result] = model.predict([json.dumps({"tokens": tokens, "targets": targets})])
    assert result.text == " ".join(tokens)
    return [one.sense for one in result.senses]


def test_given_tokens_get_their_senses(runs):
    model = load(runs["nearest"], device="cpu")
    tokens = ["She", "drew", "the", "bow", "and", "shot", "an", "arrow", "."]
    bow = {"start": 3, "end": 4, "lemma": "bow", "pos": "NOUN"}
    assert given_tokens(model, tokens, bow) == [WEAPON]
    assert given_tokens(model, tokens, bow, {**bow, "lemma": "keel"}) == [WEAPON, None]


def test_predictions_are_the_same_alone_and_in_a_batch(runs):
    model = load(runs["nearest"], device="cpu")
    texts = [MARKED, "A [bow|bow|NOUN].", "The hunter drew his [bow|bow|NOUN] at once and shot."] * 8
    assert model.predict(texts) == [model.predict([text])[0] for text in texts]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("No target here.", r"there is no target in 'No target here\.'; expected text with targets as in: "),
        ("A [bow|bow|noun].", "the part of speech is 'noun'; it must be NOUN, VERB, ADJ, ADV"),
        ("A [ |bow|NOUN] and more", "the target ' ' does not stand inside of one sentence"),
        ('{"tokens": ["A"]', "^text 1: no JSON: Expecting ',' delimiter at column 17; expected text"),
        ('{"tokens": ["A"], "targets": []}', "there is no target in"),
        ('{"tokens": [], "targets": []}', "tokens are to be words, and one at least"),
        ('{"tokens": ["A", "bow"]}', "targets is missing, or no list"),
        (
            '{"tokens": ["A", "bow"], "targets": [{"start": 1, "end": 3, "lemma": "bow", "pos": "NOUN"}]}',
            "the target from token 1 up to 3 is outside of its sentence, which has 2 tokens",
        ),
        (
            '{"tokens": ["A", "bow"], "targets": [{"start": 1, "end": 2, "pos": "NOUN"}]}',
            "lemma is missing, or no str",
        ),
    ],
)
def test_a_request_that_cannot_be_read_is_answered_with_what_is_expected(text, complaint, runs):
    with pytest.raises(InputError, match=complaint):
        load(runs["nearest"], device="cpu").predict([text])


def test_a_training_that_cannot_work_is_refused(data, tmp_path):
    index = str(write_index(tmp_path))
    with pytest.raises(InputError, match=r"task.sense_index is not set; it is to name WordNet's index\.sense"):
        train_small("wsd", tmp_path / "1", data)
    assert not (tmp_path / "1").exists()
    with pytest.raises(NotFound, match=r"nokeys\.gold\.key\.txt: no such file"):
        train_small("wsd", tmp_path / "2", Path(data).rename(tmp_path / "nokeys.data.xml"))
    (tmp_path / "nokeys.data.xml").rename(data)
    for changes, complaint in [
        ({"elmo__where": "both"}, "elmo.where is both, and this model has no RNN"),
        ({"elmo__training": "joint"}, "elmo.training is joint, and this method trains nothing"),
        ({"words__vectors": "random"}, "vectors of words or characters would stay random"),
        ({"elmo__where": "none"}, "the model would see no tokens"),
    ]:
        with pytest.raises(InputError, match=complaint):
            train_small("wsd", tmp_path / str(changes), data, task__sense_index=index, **changes)


def test_a_finished_run_that_goes_on_writes_the_same_model_again(data, runs, tmp_path):
    index = write_index(data.parent)
    model = runs["nearest"] / "model"
    before = {file.name: file.read_bytes() for file in model.iterdir()}
    events = list(train("wsd", runs["nearest"], train=data, dev=data, resume=True, device="cpu"))
    index.unlink()
    assert isinstance(events[-1], Finished)
    assert {file.name: file.read_bytes() for file in model.iterdir()} == before


def test_progress_is_told_with_time_left(data, tmp_path, monkeypatch):
    monkeypatch.setattr("elmore.tasks.core.training_run.SECONDS_BETWEEN_OUTPUTS", -1.0)
    events = train_small("wsd", tmp_path / "run", data, task__sense_index=str(write_index(tmp_path)))
    read = [event for event in events if isinstance(event, Fitting)]
    # 37 tokens of training sentences with targets make one batch, and the same as dev set another.
    assert [(event.done, event.tokens, event.seconds_left) for event in read] == [(37, 37, 0), (74, 74, 0)]
    assert str(read[1]) == "read 74 of 74 tokens, 0 s left"


def test_layers_are_kept_only_for_others_to_share(data, tmp_path):
    recipe = {**SMALL, "task.sense_index": str(write_index(tmp_path))}
    for folder, cache in (("kept", tmp_path / "cache"), ("not", None)):
        list(train("wsd", tmp_path / folder, train=data, dev=data, recipe=recipe, cache=cache, device="cpu"))
    assert len(list((tmp_path / "cache").rglob("vectors.npy"))) == 1
    assert not list((tmp_path / "not").rglob("vectors.npy"))
    kept, other = ((tmp_path / folder / "model/model.safetensors").read_bytes() for folder in ("kept", "not"))
    assert kept == other


@pytest.mark.parametrize("cache", [None, "cache"])
def test_a_fit_that_is_stopped_can_be_begun_again(data, tmp_path, cache):
    recipe = {**SMALL, "task.sense_index": str(write_index(tmp_path))}
    given = {"train": data, "dev": data, "cache": cache and tmp_path / cache, "device": "cpu"}
    events = train("wsd", tmp_path / "run", recipe=recipe, **given)
    assert isinstance(next(events), Configured)
    events.stop()
    assert isinstance(list(events)[-1], Stopped)
    assert not (tmp_path / "run/model").exists()
    assert isinstance(list(train("wsd", tmp_path / "run", resume=True, **given))[-1], Finished)
