"""SQuAD's files are read, and what is wrong with one is named by its place."""

import gzip
import json
from typing import Any

import pytest

from elmore.errors import InputError
from elmore.tasks.squad.reader import GoldAnswer, SquadParagraph, SquadQuestion, read_squad

QUESTION = {"id": "1", "question": "Who met Bob?", "answers": [{"text": "Ann", "answer_start": 0}]}
PARAGRAPH = {"context": "Ann met Bob.", "qas": [QUESTION]}


def stored(*paragraphs: Any) -> str:
    return json.dumps({"version": "1.1", "data": [{"title": "x", "paragraphs": list(paragraphs)}]})


@pytest.fixture
def file(tmp_path):
    def write(content: str, name: str = "squad.json"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
        return path

    return write


@pytest.mark.parametrize("name", ["squad.json", "squad.json.gz"])
def test_a_paragraph_has_its_questions_and_they_their_answers(name, file):
    path = file(stored(PARAGRAPH), name)
    place = f"{path}, article 1, paragraph 1, question 1"
    question = SquadQuestion("1", "Who met Bob?", (GoldAnswer("Ann", 0),), is_impossible=False, location=place)
    assert read_squad(path) == [SquadParagraph("Ann met Bob.", (question,))]


def test_a_file_may_go_over_many_lines_and_have_no_answers(file):
    asked = {name: QUESTION[name] for name in ("id", "question")}
    content = json.dumps({"data": [{"paragraphs": [PARAGRAPH | {"qas": [asked]}]}]}, indent=2)
    assert read_squad(file(content))[0].questions[0].answers == ()


def test_questions_that_cannot_be_answered_are_marked(file):
    path = file(stored(PARAGRAPH | {"qas": [QUESTION | {"is_impossible": True, "answers": []}]}))
    assert read_squad(path)[0].questions[0].is_impossible


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"data": [\n{"paragraphs" 3}]}', "line 2, column 15"),
        (f"[{'9' * 5000}]", "unreadable JSON: the nesting is too deep, or a number is too long"),
        ("[" * 100_000, "unreadable JSON: the nesting is too deep, or a number is too long"),
        ("[1]", r"expected a JSON object, such as \{…\}, not '\[1\]'"),
        ("{}", "data is missing"),
        ('{"data": [3]}', r"data must be a list of objects, not \[3\]"),
        (
            '{"data": [{"title": "x"}]}',
            "article 1: paragraphs is missing; the object has title",
        ),
        (stored({"qas": []}), "article 1, paragraph 1: context is missing; the object has qas"),
        (stored({"context": "a"}), "article 1, paragraph 1: qas is missing"),
        (stored(PARAGRAPH | {"context": " "}), "article 1, paragraph 1: the context is empty"),
        (
            stored(PARAGRAPH | {"qas": [{"id": "1"}]}),
            "paragraph 1, question 1: question is missing",
        ),
        (stored(PARAGRAPH | {"qas": [QUESTION | {"id": 1}]}), "question 1: id must be a string, not 1"),
        (stored(PARAGRAPH | {"qas": [QUESTION | {"question": ""}]}), "question 1: the question is empty"),
        (
            stored(
                PARAGRAPH,
                PARAGRAPH | {"qas": [QUESTION | {"id": "2", "answers": [{"text": "a", "answer_start": "0"}]}]},
            ),
            "paragraph 2, question 1: answer_start must be an integer, not '0'",
        ),
        (stored(PARAGRAPH, PARAGRAPH), "paragraph 2, question 1: the id '1' occurs twice in this file"),
        (stored(), "contains no questions; SQuAD stores them in the list qas of each paragraph"),
        (stored(PARAGRAPH | {"qas": []}), "contains no questions; SQuAD stores them in the list qas of each paragraph"),
        ("", r"is empty; expected an object of SQuAD, \{.data.: \[\{.paragraphs.: …\}\]\}"),
        (" \n", "is empty; expected"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_place(content, told, file):
    with pytest.raises(InputError, match=rf"squad\.json(, |: ).*{told}"):
        read_squad(file(content))


def test_the_published_dev_set_has_its_published_size(shared):
    paragraphs = read_squad(shared / "data" / "tasks" / "squad" / "squad-v1.1-dev.json.xz")
    questions = [question for paragraph in paragraphs for question in paragraph.questions]
    assert (len(paragraphs), len(questions)) == (2_067, 10_570)
    assert sum(len(question.answers) for question in questions) == 34_726
