"""Reading is learnt from a handful of questions; answers come with their places, however the questions are given."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmore.errors import InputError, InputWarning
from elmore.tasks.comparison.compare import compare
from elmore.tasks.comparison.events import Reported
from elmore.tasks.comparison.jobs import score_tests
from elmore.tasks.core.events import TaskConfigured
from elmore.tasks.core.trained_model import load
from elmore.tasks.inputs.layer_cache import LayerReader
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.squad import reader
from elmore.tasks.squad.reader import AnswerTokens, GoldAnswer, answer_tokens, most_frequent_answer, tokenize_paragraph
from elmore.tasks.squad.task import SQUAD, AnsweredQuestions, SquadOptions, read
from small_tasks import PARAGRAPHS, SMALL, TRAINING, WITH_ELMO, squad, train_small, write_data

OPTIONS = SquadOptions(token_style="ud")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))["squad"]


@pytest.fixture(scope="module")
def run(data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "squad"
    train_small("squad", folder, data)
    return folder


def written(path: Path, *paragraphs: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"data": [{"title": "x", "paragraphs": list(paragraphs)}]}))
    return path


def asked(context: str, **answers: tuple[str, int]) -> dict[str, Any]:
    questions = [
        {"id": name, "question": f"{name}?", "answers": [{"text": text, "answer_start": start}]}
        for name, (text, start) in answers.items()
    ]
    return {"context": context, "qas": questions}


def test_the_handful_is_learnt_to_the_letter(run, data):
    score = load(run, device="cpu").evaluate(data)
    assert (score.metric, score.value, score.parts["exact_match"]) == ("F1", 100, 100)
    card = json.loads((run / "model" / "task.json").read_text())
    assert set(card["mixes"]) == {"input", "output"}
    assert card["scores"]["exact_match"] == 100


def test_answers_stand_at_their_places_alone_in_a_batch_and_in_every_form(run):
    model = load(run, device="cpu")
    lines = [json.dumps({"context": context, "questions": [*questions]}) for context, questions in PARAGRAPHS]
    together = model.predict(lines * 5)
    for (context, questions), line, answered in zip(PARAGRAPHS * 5, lines * 5, together, strict=True):
        assert isinstance(answered, AnsweredQuestions)
        assert answered.context == context
        assert [(one.question, one.text) for one in answered.answers] == [*questions.items()]
        assert all(context[one.start : one.end] == one.text for one in answered.answers)
        [alone] = model.predict([line])
        [tabs] = model.predict(["\t".join([context, *questions])])
        [official] = model.predict([json.dumps(next(one for one in squad() if one["context"] == context))])
        for other in (alone, tabs, official):
            assert [one[2:5] for one in spans(other)] == [one[2:5] for one in spans(answered)]
            assert [one[5] for one in spans(other)] == pytest.approx([one[5] for one in spans(answered)], abs=1e-4)
        assert [one.id for one in alone.answers] == ["1", "2"]
        assert official.answers[0].id in ("0-0", "1-0")
    assert str(together[0]).splitlines()[0].startswith("John\t")
    assert str(together[0]).splitlines()[0].endswith("\tWho lives in New York?")


def spans(answered: AnsweredQuestions) -> list[tuple[Any, ...]]:
    return [(one.id, one.question, one.text, one.start, one.end, one.probability) for one in answered.answers]


@pytest.mark.parametrize("answers", [{}, {"answers": None}, {"answers": []}])
def test_the_official_file_has_an_answer_for_every_id_and_needs_no_labels(answers, run, tmp_path):
    model = load(run, device="cpu")
    unlabeled = [
        {**one, "qas": [{"id": own["id"], "question": own["question"], **answers} for own in one["qas"]]}
        for one in squad()
    ]
    file = written(tmp_path / "unlabeled.json", *unlabeled)
    told = json.loads(model.official_predictions(file))
    assert told == {"0-0": "John", "0-1": "New York", "1-0": "Mary Ann", "1-1": "Paris"}
    place = r"unlabeled\.json, article 1, paragraph 1, question 1: the question '0-0'"
    with pytest.raises(
        InputError, match=rf"{place} has no answers and cannot be scored; for predictions only, run elmore"
    ):
        model.evaluate(file)
    with pytest.raises(InputError, match=rf"{place} has no answers to train on"):
        train_small("squad", tmp_path / "run", file)
    assert not (tmp_path / "run").exists()


def test_a_paragraph_is_read_once_for_all_its_questions(run, monkeypatch):
    read_sentences = []
    layers = LayerReader.layers

    def watched(self, sentences):
        read_sentences.extend(sentences)
        return layers(self, sentences)

    monkeypatch.setattr(LayerReader, "layers", watched)
    load(run, device="cpu").predict(
        [json.dumps({"context": PARAGRAPHS[0][0], "questions": ["Who?", "Where?", "Why?"]})]
    )
    contexts = [tokens for tokens in read_sentences if len(tokens) > 5]
    assert len(contexts) == 1


def test_an_answer_is_found_among_tokens_by_its_characters():
    paragraph = tokenize_paragraph("A state-of-the-art car. It won't stop.", StyledTokenizer("ud"), "here")

    def placed(text: str, start: int) -> AnswerTokens | None:
        return answer_tokens(GoldAnswer(text, start), paragraph)

    tokens = paragraph.windows[0].tokens
    for text in ("art car", "state-of-the-art", "won't stop."):
        found = placed(text, paragraph.text.index(text))
        assert found is not None
        assert found.is_whole
        assert tokens[found.first] == ("wo" if text.startswith("won") else text.split()[0].split("-")[0])
    widened = placed("top", paragraph.text.index("top"))
    assert widened is not None
    assert (tokens[widened.first], widened.is_whole) == ("stop", False)
    blanks = placed(" car", paragraph.text.index(" car"))
    assert blanks is not None
    assert blanks.is_whole
    assert [placed("car", 0), placed("car", -4), placed(" ", 1), placed("", 0), placed("stop.", 999)] == [None] * 5


def test_of_several_answers_the_most_frequent_is_learnt():
    one, other = AnswerTokens(0, 1, True), AnswerTokens(1, 1, True)
    assert most_frequent_answer([one, other, None, other]) == other
    assert most_frequent_answer([one, other, None, None]) == one
    assert most_frequent_answer([None]) is None


def test_odd_answers_are_counted_and_explained(tmp_path):
    paragraph = asked("Ann met Bob in Israelville.", a=("Ann", 0), b=("Bob", 3), c=("Israel", 15))
    impossible = {"id": "d", "question": "Why?", "answers": [], "is_impossible": True}
    file = written(tmp_path / "odd.json", {**paragraph, "qas": [*paragraph["qas"], impossible]})
    to_train, to_score = read([file], OPTIONS, to_train=True), read([file], OPTIONS, to_train=False)
    assert [example.id for example in to_train.examples] == ["a", "c"]
    assert [example.span for example in to_train.examples] == [(0, 0), (4, 4)]
    assert to_train.notices == (
        "1 question without an answer (SQuAD 2.0) left out",
        "1 answer is not at answer_start: not used for training",
        "1 answer with a border inside of a token: training uses the whole tokens",
        "1 question left out: no answer is at its answer_start",
    )
    assert [example.answers for example in to_score.examples] == [("Ann",), ("Bob",), ("Israel",)]
    assert to_score.notices[1:] == (
        "1 answer is not at answer_start: scored by the text",
        "1 answer with a border inside of a token: no prediction can match exactly",
    )


def test_what_was_left_out_is_told_before_a_training(tmp_path):
    file = written(tmp_path / "odd.json", asked("Ann met Bob.", a=("Ann", 0), b=("Bob", 3)))
    opened = train_small("squad", tmp_path / "run", file, training__epochs=1)[0]
    assert isinstance(opened, TaskConfigured)
    assert (opened.train, opened.dev) == (1, 2)
    assert "train: 1 answer is not at answer_start: not used for training" in opened.notices


def test_very_long_paragraphs_are_read_in_windows_and_the_best_answer_is_taken(run, data, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_WINDOW", 6)
    context = "Ann met Bob and Eve in Paris, and they all went to Rome."
    file = written(tmp_path / "long.json", asked(context, a=("Rome", context.index("Rome")), b=("Ann", 0)))
    to_train, to_score = read([file], OPTIONS, to_train=True), read([file], OPTIONS, to_train=False)
    assert all(len(example.context) <= 6 for example in to_score.examples)
    assert [example.context[example.span[0]] for example in to_train.examples if example.span] == ["Rome", "Ann"]
    assert "1 paragraph of more than " in to_score.notices[0]
    model = load(run, device="cpu")
    assert model.evaluate(file).parts["questions"] == 2
    with pytest.warns(InputWarning, match="^text 1: 1 paragraph of more than .* tokens divided into windows"):
        [answered] = model.predict([json.dumps({"context": context, "questions": ["Who?", "Where?"]})])
    assert len(answered.answers) == 2
    for one in answered.answers:
        assert context[one.start : one.end] == one.text
    predictions = model.predict_examples(to_score.examples)
    best = {}
    for example, prediction in zip(to_score.examples, predictions, strict=True):
        best.setdefault(example.id, []).append(prediction)
    with pytest.warns(InputWarning, match="1 paragraph of more than .* tokens divided into windows"):
        told = json.loads(model.official_predictions(file))
    for name, found in best.items():
        assert told[name] == max(found, key=lambda one: one.score).text


def test_an_answer_that_no_window_holds_is_not_said_to_have_no_place(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_WINDOW", 6)
    context = "Ann met Bob and Eve in Paris, and they all went to Rome."
    answers = {"a": ("Ann", 0), "b": ("met Bob and Eve in Paris", 4), "c": ("Bob", 0)}
    to_train = read([written(tmp_path / "long.json", asked(context, **answers))], OPTIONS, to_train=True)
    assert [example.id for example in to_train.examples] == ["a"]
    assert to_train.notices[1:3] == (
        "1 question left out: no answer is at its answer_start",
        "1 question left out: no window of the paragraph contains the whole answer",
    )


def test_a_file_whose_paragraphs_look_wrapped_is_named_once(tmp_path):
    wrapped = "\n".join(["so did all of their friends from there, who were on the way to the"] * 5)
    paragraphs = [asked(f"{wrapped}\nhouse of {name}.", **{name: ("so", 0)}) for name in ("Ann", "Bob")]
    file = written(tmp_path / "wrapped.json", *paragraphs)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        assert len(read([file], OPTIONS, to_train=True).examples) == 2
    [warning] = told
    assert str(warning.message).startswith(f"{file}, a paragraph: its lines look hard-wrapped, so a blank line ends")


def test_a_question_counts_once_however_many_windows_its_paragraph_has(run, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MAX_WINDOW", 6)
    context = "Ann met Bob and Eve in Paris, and they all went to Rome."
    answers = [(word, context.index(word)) for word in ("Ann", "Bob and Eve", "Rome.", context)]
    paragraph = asked(context, **{str(number): answer for number, answer in enumerate(answers)})
    file = written(tmp_path / "long.json", paragraph)
    model = load(run, device="cpu")
    told = score_tests(model, {"long": [file]}, counts=tmp_path / "counts.npz", cache=None)["long"]
    assert told.examples == 4
    assert told.value > 0
    with np.load(tmp_path / "counts.npz") as stored:
        assert stored["long"].shape == (4, 4)
        assert SQUAD.metric.value(stored["long"]) == told.value


def test_reading_with_elmo_and_without_is_compared(data, tmp_path):
    recipe = {**TRAINING, **WITH_ELMO, **SMALL["squad"], "training.epochs": 2}
    options = {"recipe": recipe, "seeds": 1, "jobs": 0, "device": "cpu"}
    *_, last = compare("squad", tmp_path / "comparison", train=data, dev=data, test=data, **options)
    assert isinstance(last, Reported)
    assert (last.comparison.task, last.comparison.metric) == ("squad", "F1")
    lines = [json.loads(line) for line in (tmp_path / "comparison" / "results.jsonl").read_text().splitlines()]
    assert len(lines) == 2
    assert all("exact_match" in test["parts"] for line in lines for test in line["tests"].values())


def test_an_answer_is_no_longer_than_the_recipe_allows(data, tmp_path):
    train_small("squad", tmp_path / "run", data, task__longest_answer=1, training__epochs=2)
    model = load(tmp_path / "run", device="cpu")
    answers = [one for line in squad() for one in model.predict([json.dumps(line)])[0].answers]
    assert all(" " not in one.text for one in answers)


def test_paragraphs_of_the_published_set_keep_their_places(shared):
    """Every placed answer of some articles is, as tokens, the text that people marked."""
    path = shared / "data" / "tasks" / "squad" / "squad-v1.1-dev.json.xz"
    found = read([path], OPTIONS, to_train=True)
    # 10,570 questions, each with an answer that stands at its offset; counted once, by this reader.
    assert len(found.examples) == 10_570
    assert not any("answer_start" in notice or "window" in notice for notice in found.notices)
    for example in found.examples[::50]:
        assert example.span is not None
        first, last = example.span
        text = example.text[example.offsets[first][0] : example.offsets[last][1]]
        assert any(answer.strip() in text for answer in example.answers)


def test_what_there_is_to_say_of_questions_is_said_when_they_are_scored(run, tmp_path):
    paragraph = asked("Ann met Bob.", a=("Bob", 0))
    impossible = {"id": "b", "question": "Why?", "answers": [], "is_impossible": True}
    file = written(tmp_path / "odd.json", {**paragraph, "qas": [*paragraph["qas"], impossible]})
    told = (
        "1 question without an answer (SQuAD 2.0) left out",
        "1 answer is not at answer_start: scored by the text",
    )
    assert load(run, device="cpu").evaluate(file).notices == told
    with pytest.warns(InputWarning) as caught:
        load(run, device="cpu").official_predictions(file)
    assert tuple(str(warning.message) for warning in caught) == told


def test_nothing_to_learn_from_is_refused_with_the_reason(tmp_path):
    file = written(tmp_path / "odd.json", asked("Ann met Bob.", a=("Nobody", 0)))
    with pytest.raises(InputError, match=r"odd\.json: no examples"):
        train_small("squad", tmp_path / "run", file)


def test_a_question_that_is_given_twice_is_refused_where_answers_go_by_its_id(run, data):
    with pytest.raises(
        InputError,
        match=r"article 1, paragraph 1, question 1: the id '0-0' also occurs in another file \(the model requires",
    ):
        load(run, device="cpu").evaluate([data, data])
