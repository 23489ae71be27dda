"""Senses of words are learnt from their uses, by nearest means and by a classifier over each lemma's senses."""

import json
from pathlib import Path

import pytest
import torch

from elmore.errors import InputError, NotFound
from elmore.tasks.core.events import Fitted, Fitting, TaskConfigured, TaskFinished
from elmore.tasks.core.trained_model import TrainedModel, load
from elmore.tasks.core.training_run import train
from elmore.tasks.metrics.metric import Score
from elmore.tasks.senses.inventory import inventory_labels, read_sense_index
from elmore.tasks.senses.wsd import WSD, LinearSense, NearestCentroid, PredictedSense, SenseF1, SenseSentence
from elmore.tasks.senses.wsd_reader import WsdInstance, read_wsd
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
    assert isinstance(load(runs[method]).assembled.model, {"nearest": NearestCentroid, "linear": LinearSense}[method])


# Vectors of words that are worked out by hand: uses of a lemma differ by their words alone.
VECTORS = "bow 1 0\nbows 0.6 0.8\nprow 0 1\nmiddle 1 1\nnear 3 4\nfar 1 -1\nother 0 0.5\nodd 0.1 0.7\n"


def hand_made(folder: Path, train: list, dev: list | None = None, **more) -> NearestCentroid:
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
    assert isinstance(model, NearestCentroid)
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
    assert model.counts.tolist() == [2]  # of the sense that was drawn
    words = [SenseSentence([word], [target("bow")]) for word in ("bow", "prow")]
    first, second = senses(tmp_path, *words)
    assert first == second
    assert first.key in (GREETING, WEAPON)


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
    assert isinstance(opened, TaskConfigured)
    assert isinstance(fitted, Fitted)
    assert isinstance(finished, TaskFinished)
    assert "small: 1 sentence without a target left out" in str(opened)
    assert "0 trained parameters" in str(opened)
    scores = {name: score.value for name, score in fitted.fit.scores.items()}
    assert list(scores) == ["layer 0", "layer 1", "layer 2"]
    # In the context-free layer both nouns are the same vector, and so all are WordNet's first: 3 of 5 are right.
    assert scores == {"layer 0": pytest.approx(60), "layer 1": 100, "layer 2": 100}
    assert str(fitted) == "dev F1: layer 0 60.00; layer 1 100.00; layer 2 100.00; chosen: layer 1"
    assert "epoch" not in str(finished)
    assert finished.mixes["input"].weights == (0, 1, 0)
    card = json.loads((tmp_path / "all/model/task.json").read_text())
    assert card["training"] == {"examples": 5, "dev_scores": scores, "chosen": "layer 1"}


def test_a_layer_that_is_given_is_taken(data, tmp_path):
    events = train_small("wsd", tmp_path / "run", data, elmo__layers=0, task__sense_index=str(write_index(tmp_path)))
    finished = events[-1]
    assert isinstance(finished, TaskFinished)
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
        ("A [ |bow|NOUN] and more", "text 1: the target ' ' is not inside of one sentence of 'A   and more'"),
        (
            '{"tokens": ["A"]',
            "text 1: invalid JSON: Expecting ',' delimiter at column 17; expected text with targets as in:",
        ),
        ('{"tokens": ["A"], "targets": []}', "there is no target in"),
        ('{"tokens": [], "targets": []}', "text 1: tokens must be a list of at least one word"),
        ('{"tokens": ["A", "bow"]}', "text 1: targets is missing"),
        (
            '{"tokens": ["A", "bow"], "targets": [{"start": 1, "end": 3, "lemma": "bow", "pos": "NOUN"}]}',
            "text 1: the target from token 1 up to 3 is outside of its sentence",
        ),
        (
            '{"tokens": ["A", "bow"], "targets": [{"start": 1, "end": 2, "pos": "NOUN"}]}',
            "text 1: lemma is missing",
        ),
    ],
)
def test_a_request_that_cannot_be_read_is_answered_with_what_is_expected(text, complaint, runs):
    with pytest.raises(InputError, match=complaint):
        load(runs["nearest"], device="cpu").predict([text])


def test_a_training_that_cannot_work_is_refused(data, tmp_path):
    index = str(write_index(tmp_path))
    with pytest.raises(
        InputError,
        match=r"task\.sense_index is not set; it must name WordNet's index\.sense, for words whose lemma is not",
    ):
        train_small("wsd", tmp_path / "1", data)
    assert not (tmp_path / "1").exists()
    with pytest.raises(NotFound, match=r"nokeys\.gold\.key\.txt: no such file"):
        train_small("wsd", tmp_path / "2", Path(data).rename(tmp_path / "nokeys.data.xml"))
    (tmp_path / "nokeys.data.xml").rename(data)
    for changes, complaint in [
        ({"elmo__where": "both"}, r"elmo\.where is both"),
        ({"elmo__training": "joint"}, "elmo.training is joint, and this method is not trained"),
        ({"words__vectors": "random"}, "vectors of words or characters would stay random"),
        ({"elmo__where": "none"}, "the model has no input"),
    ]:
        with pytest.raises(InputError, match=complaint):
            train_small("wsd", tmp_path / str(changes), data, task__sense_index=index, **changes)


def test_a_finished_run_that_goes_on_writes_the_same_model_again(data, runs, tmp_path):
    index = write_index(data.parent)
    model = runs["nearest"] / "model"
    before = {file.name: file.read_bytes() for file in model.iterdir()}
    events = list(train("wsd", runs["nearest"], train=data, dev=data, resume=True, device="cpu"))
    index.unlink()
    assert isinstance(events[-1], TaskFinished)
    assert {file.name: file.read_bytes() for file in model.iterdir()} == before


def test_progress_is_told_with_time_left(data, tmp_path, monkeypatch):
    monkeypatch.setattr("elmore.tasks.core.training_run.SECONDS_BETWEEN_OUTPUTS", -1.0)
    events = train_small("wsd", tmp_path / "run", data, task__sense_index=str(write_index(tmp_path)))
    read = [event for event in events if isinstance(event, Fitting)]
    # 37 tokens of training sentences with targets make one batch, and the same as dev set another.
    assert [(event.done, event.tokens, event.seconds_left) for event in read] == [(37, 37, 0), (74, 74, 0)]
    assert str(read[1]) == "encoded 74 of 74 tokens, 0 s left"


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
    assert isinstance(next(events), TaskConfigured)
    events.stop()
    assert isinstance(list(events)[-1], Stopped)
    assert not (tmp_path / "run/model").exists()
    assert isinstance(list(train("wsd", tmp_path / "run", resume=True, **given))[-1], TaskFinished)


def instance(name: str, pos: str, *keys: str) -> WsdInstance:
    return WsdInstance(name, "x", pos, 0, 1, keys)


def wsd_scores(gold: dict[str, list[WsdInstance]], answers: dict[str, dict[str, str]]) -> Score:
    """The score of one sentence for each data set."""
    examples = [SenseSentence(["x"], targets, name) for name, targets in gold.items()]
    senses = [[PredictedSense(answers.get(name, {}).get(one.id)) for one in targets] for name, targets in gold.items()]
    return SenseF1().score(examples, senses)


GOLD = {
    "one": [instance("t0", "NOUN", "a", "b"), instance("t1", "NOUN", "c"), instance("t2", "VERB", "d")],
    "two": [instance("t0", "ADV", "e")],
}


def test_any_gold_key_counts_and_an_unanswered_instance_lowers_recall_alone():
    score = wsd_scores(GOLD, {"one": {"t0": "b", "t1": "x"}, "two": {"t0": "e"}})
    # By hand: 3 answers, 2 right, 4 instances.
    assert score.parts["precision"] == pytest.approx(100 * 2 / 3)
    assert score.parts["recall"] == 50
    assert score.value == score.parts["f1"] == pytest.approx(100 * 4 / 7)
    assert (score.parts["one.gold"], score.parts["one.found"], score.parts["one.correct"]) == (3, 2, 1)
    assert (score.parts["NOUN.recall"], score.parts["one.NOUN.f1"], score.parts["two.ADV.f1"]) == (50, 50, 100)
    assert score.parts["VERB.found"] == 0
    assert score.table.split("\n") == [
        "F1     all   NOUN   VERB    ADV  instances  answered",
        "one   40.0   50.0    0.0      -          3         2",
        "two  100.0      -      -  100.0          1         1",
        "all   57.1   50.0    0.0  100.0          4         3",
    ]


def test_the_same_id_in_another_set_is_another_instance():
    assert wsd_scores(GOLD, {"two": {"t0": "a"}}).parts["correct"] == 0


def test_the_first_sense_scores_what_was_published(shared):
    folder = shared / "data" / "tasks" / "wsd"
    senses = read_sense_index(folder / "wordnet30.index.sense.xz")
    names = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")
    gold = {
        name: [one for sentence in read_wsd(folder / f"{name}.data.xml.xz") for one in sentence.instances]
        for name in names
    }
    first = {name: {one.id: senses[one.lemma, one.pos][0] for one in asked} for name, asked in gold.items()}
    score = wsd_scores(gold, first)
    # Raganato, Camacho-Collados and Navigli (2017), table 2, "WordNet 1st sense"; the README of the data repeats them.
    assert [round(score.parts[f"{name}.f1"], 1) for name in names] == [66.8, 66.2, 55.2, 63.0, 67.8]
    assert (round(score.value, 1), score.parts["gold"]) == (65.2, 7_253)
    del gold["semeval2007"], first["semeval2007"]
    # The four sets of Peters et al. (2018), table 5, "WordNet 1st Sense Baseline".
    assert round(wsd_scores(gold, first).value, 1) == 65.9


def test_linear_predicts_batch_without_trained_lemma(data, tmp_path):
    index = write_index(tmp_path)
    train_small("wsd", tmp_path / "run", data, task__method="linear", task__sense_index=str(index), training__epochs=1)
    model = load(tmp_path / "run", device="cpu")
    [stern] = model.predict(["A [stern|stern|NOUN] look."])
    assert [(sense.sense, sense.is_first_sense) for sense in stern.senses] == [("stern%1:06:00::", True)]
    [unknown] = model.predict(["A [zyx|zyx|NOUN]."])
    assert [sense.sense for sense in unknown.senses] == [None]


def test_unseen_counts_targets_without_predictable_sense(data, tmp_path):
    index = write_index(tmp_path)
    labels = inventory_labels([WsdInstance("1", "bow", "NOUN", 0, 1, (GREETING,))], read_sense_index(index))
    instances = [
        WsdInstance("1", "bow", "NOUN", 0, 1, (WEAPON,)),
        WsdInstance("2", "bow", "NOUN", 0, 1, (GREETING, WEAPON)),
        WsdInstance("3", "stern", "NOUN", 0, 1, ("stern%1:06:00::",)),
    ]
    assert WSD.unseen([SenseSentence(["bow"], instances)], labels) == [
        f"1 target has a label that is not in the training data and counts as wrong: {WEAPON}"
    ]
