"""`elmore predict`, `evaluate` and `info` of task models: raw text is labelled, and what cannot be read is named."""

import io
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import small_senses
import small_tasks
from elmore.model import load as load_model
from elmore.tasks.core import model_folder
from elmore.tasks.core.registry import TASKS
from elmore.tasks.core.trained_model import load
from small_senses import SENTENCES, write_index, write_wsd

PAIRS = [
    ("I sat on the bank .", "The bank is closed .", False),
    ("He took a bow .", "She made a bow .", True),
    ("The bank opened .", "A bank lends .", True),
    ("He drew a bow .", "They took a bow .", False),
]
SENTENCE = "Mary doesn't like New York."
# Of each task, a line that it labels.
LINES = {
    "ner": SENTENCE,
    "pos": SENTENCE,
    "sentiment": SENTENCE,
    "classify": SENTENCE,
    "wsd": "The actors took a [bow|bow|NOUN].",
    "wic": "I sat on the [bank].\tThe [bank] is closed.",
    "entailment": "A man plays.\tNobody plays.",
    "squad": '{"context": "In Paris, Mary met John.", "questions": ["Who met John?"]}',
    "srl": SENTENCE,
    "coref": SENTENCE,
}
IN_COLUMNS = {"srl"}
PLACED = ("entities", "senses", "predicates")  # what has places in a text


def write_pairs(path: Path) -> Path:
    lines = []
    for first, second, label in PAIRS:
        word = "bank" if "bank" in first else "bow"
        record = {"lemma": word, "pos": "NOUN", "label": label}
        for number, text in ((1, first), (2, second)):
            start = text.index(word)
            record |= {f"sentence{number}": text, f"start{number}": start, f"end{number}": start + len(word)}
        lines.append(json.dumps(record))
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """A model of every task, of the few steps that it takes to have one."""
    folder = tmp_path_factory.mktemp("models")
    for task, file in small_tasks.write_data(folder).items():
        small_tasks.train_small(task, folder / task, file, training__epochs=12)
    senses = write_wsd(folder, "senses", SENTENCES)
    small_senses.train_small("wsd", folder / "wsd", senses, task__sense_index=str(write_index(folder)))
    small_senses.train_small("wic", folder / "wic", write_pairs(folder / "pairs.jsonl"))
    return {task: folder / task for task in TASKS}


@pytest.fixture
def predicted(elmore, models, monkeypatch):
    """`predicted("ner", "Some text.")` gives how the program ended that was given this text."""

    def run(task: str, text: str | bytes, *more: object):
        content = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return elmore("predict", models[task], "--device", "cpu", *more)

    return run


@pytest.mark.parametrize("task", [name for name, task in TASKS.items() if not task.reads_documents])
def test_every_task_of_single_texts_labels_the_lines_of_standard_input(task, predicted):
    ended = predicted(task, f"{LINES[task]}\n\n{LINES[task]}\n")
    assert (ended.code, ended.err) == (0, "")
    half = len(ended.out) // 2
    assert ended.out[:half] == ended.out[half:]
    # Columns have a token a line, and a blank one behind each sentence.
    assert ended.out.count("\n") == 2 * (8 if task in IN_COLUMNS else 1)
    told = [json.loads(line) for line in predicted(task, f"{LINES[task]}\n", "--json").out.splitlines()]
    assert len(told) == 1
    for record in [*told, *(record for name in PLACED for record in told[0].get(name, []))]:
        if "start" in record:
            assert told[0]["text"][record["start"] : record["end"]] == record["text"]


@pytest.mark.parametrize("task", ["entailment", "squad"])
def test_the_command_line_says_what_python_says(task, predicted, models):
    [told] = map(json.loads, predicted(task, f"{LINES[task]}\n", "--json").out.splitlines())
    [result] = load(models[task], device="cpu").predict([LINES[task]])
    assert told == json.loads(json.dumps(asdict(result)))
    assert predicted(task, f"{LINES[task]}\n").out == f"{result}\n"


def test_a_line_is_printed_for_a_text_or_a_question_whatever_line_ends_they_hold(predicted):
    pair = json.dumps({"premise": "A man\tplays\r\na guitar.", "hypothesis": "Nobody\nplays."})
    [line] = predicted("entailment", pair).out.splitlines()
    assert line.split("\t")[2:] == ["A man plays  a guitar.", "Nobody plays."]
    asked = json.dumps({"context": "In\nParis,\tMary\nmet\tJohn.", "questions": ["Who\nmet\tJohn?", "Where?"]})
    lines = [line.split("\t") for line in predicted("squad", asked).out.splitlines()]
    assert [(len(cells), cells[-1]) for cells in lines] == [(3, "Who met John?"), (3, "Where?")]
    [line] = predicted("classify", "so\tbad\n").out.splitlines()
    assert line.split("\t")[2:] == ["so bad"]


def test_a_file_is_a_document_where_a_task_reads_documents(elmore, models, predicted, tmp_path):
    texts = ["John saw Mary.\nShe likes his dog.\n", "Paris is old. Mary likes it."]
    results = load(models["coref"], device="cpu").predict(texts)
    assert [len(result.clusters) for result in results] == [2, 1]
    ended = predicted("coref", texts[0])
    assert (ended.code, ended.out, ended.err) == (0, f"{replace(results[0], name='standard input')}\n", "")
    files = [tmp_path / f"{number}.txt" for number in range(2)]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    ended = elmore("predict", models["coref"], *files, "--json", "--device", "cpu")
    told = [json.loads(line) for line in ended.out.splitlines()]
    assert [[[one["text"] for one in cluster] for cluster in each["clusters"]] for each in told] == [
        [[one.text for one in cluster] for cluster in each.clusters] for each in results
    ]
    assert [each["name"] for each in told] == [str(file) for file in files]
    columns = elmore("predict", models["coref"], *files, "--device", "cpu").out
    assert [line for line in columns.splitlines() if line.startswith("#begin")] == [
        f"#begin document ({file}); part 000" for file in files
    ]


@pytest.mark.filterwarnings("default")
def test_a_file_without_text_among_documents_is_named(predicted, tmp_path):
    files = [tmp_path / name for name in ("one.txt", "two.txt")]
    for file, text in zip(files, (" \n", "John slept."), strict=True):
        file.write_text(text)
    ended = predicted("coref", "", *files, "--json")
    assert ended.err == f"elmore: warning: {files[0]}: contains no text, and is skipped\n"
    assert [json.loads(line)["name"] for line in ended.out.splitlines()] == [str(files[1])]


@pytest.mark.filterwarnings("default")
def test_wrapped_lines_are_named_and_what_is_advised_about_them_can_be_done(predicted, tmp_path):
    lines = ["so did all of their friends from there, who were on the way to the"] * 5
    ended = predicted("coref", "\n".join(lines))
    told = "its lines look hard-wrapped, so a blank line ends each paragraph; if this is wrong, "
    told += "write each paragraph on one line, with a blank line after it\n"
    assert ended.err == f"elmore: warning: standard input: {told}"
    files = [tmp_path / f"{number}.txt" for number in range(2)]
    for file in files:
        file.write_text("\n".join(lines))
    ended = predicted("coref", "", *files)
    assert ended.err == "".join(f"elmore: warning: {file}: {told}" for file in files)
    context = json.dumps({"context": "\n".join(lines), "questions": ["Who?"]})
    assert predicted("squad", f"{LINES['squad']}\n{context}\n").err.startswith(
        "elmore: warning: standard input, line 2: its lines look hard-wrapped"
    )
    apart = predicted("coref", "\n\n".join(lines), "--json")
    assert (apart.err, len(json.loads(apart.out)["sentences"])) == ("", len(lines))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_places_in_a_document_are_those_of_the_file_however_its_lines_end(end, mark, predicted, tmp_path):
    file = tmp_path / "document.txt"
    text = f"John saw Mary.{end}{end}She likes his dog.{end}"
    file.write_bytes(f"{mark}{text}".encode())
    [told] = map(json.loads, predicted("coref", "", file, "--json").out.splitlines())
    assert told["text"] == text
    assert [[text[one["start"] : one["end"]] for one in cluster] for cluster in told["clusters"]] == [
        ["John", "his"],
        ["Mary", "She"],
    ]
    assert [text[start:stop] for start, stop in told["offsets"]] == told["tokens"]
    for line in map(json.loads, predicted("pos", file.read_bytes(), "--json").out.splitlines()):
        assert line["text"] in text.split(end)
        assert [line["text"][start:stop] for start, stop in line["offsets"]] == line["tokens"]


def test_labels_come_with_places_in_the_text_as_it_was_given(predicted):
    text = "  John “slept”\u00a0in  New York 😀. Mary did n't."
    [told] = map(json.loads, predicted("pos", f"{text}\n", "--json").out.splitlines())
    assert told["text"] == text
    assert [text[start:end] for start, end in told["offsets"]] == [
        *("John", "“", "slept", "”", "in", "New", "York", "😀", ".", "Mary", "did", "n't", ".")
    ]
    assert told["sentences"] == [9, 4]


@pytest.mark.parametrize("task", TASKS)
def test_nothing_in_gives_nothing_out_and_says_so(task, predicted):
    ended = predicted(task, "\n \n")
    assert (ended.code, ended.out, ended.err) == (0, "", "the input contains no text\n")
    assert predicted(task, "", "--quiet").err == ""


@pytest.mark.parametrize(
    ("task", "line", "told"),
    [
        ("wic", "no brackets", "'no brackets' must have exactly one word in brackets; expected two texts"),
        ("wic", "one [word] alone", "there must be two texts; 'one [word] alone' has 1; expected two texts"),
        ("wic", '{"lemma": "bow"}', "pos is missing; the object has lemma; expected two texts"),
        ("wic", "{bow", "invalid JSON: Expecting property name enclosed in double quotes at column 2"),
        (
            "entailment",
            "one sentence",
            "there must be two sentences; 'one sentence' has 1; expected a premise and a hyp",
        ),
        (
            "entailment",
            "a\tb\tc",
            "there must be two sentences; 'a\\tb\\tc' has 3; expected a premise and a hypothesis",
        ),
        ("entailment", "a\t ", "the hypothesis is empty; expected a premise and a hypothesis separated by a tab"),
        (
            "entailment",
            '{"premise": "a"}',
            "no column or field for the hypothesis: expected one of sentence2, hypothesis; there are premise",
        ),
        ("entailment", '{"premise": 3, "hypothesis": "a"}', "the premise must be a string, not 3"),
        ("entailment", '{"a": b', "invalid JSON: Expecting value at column 7"),
        ("squad", "a paragraph", "there is no question about 'a paragraph'; expected a JSON object with a paragr"),
        ("squad", "a paragraph\t ", "question 1 is empty; expected a JSON object"),
        ("squad", "\twhat?", "the paragraph is empty; expected a JSON object"),
        ("squad", '{"a": b', "invalid JSON: Expecting value at column 7"),
        ("squad", '{"context": 3}', "context must be a string, not 3; expected a JSON object"),
        ("squad", '{"context": "a", "questions": [3]}', "question 1 must be a string, or an object with id and quest"),
        (
            "squad",
            '{"context": "a", "questions": [{"id": "2", "question": "b"}, "c"]}',
            "2 questions have the id '2'; ids must be unique (default: the question's number)",
        ),
        ("squad", '{"context": "a", "qas": [{}]}', "the paragraph, question 1: question is missing"),
        ("wsd", "no target", "there is no target in 'no target'; expected text with targets as in: He sat"),
        ("wsd", "a [bow|bow|NP]", "the part of speech is 'NP'; it must be NOUN, VERB, ADJ, ADV"),
        ("wsd", '{"tokens": 3}', "tokens must be a list, not 3; expected text with targets as in: He sat"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_by_its_number(task, line, told, predicted):
    ended = predicted(task, f"{LINES[task]}\n\n{line}\n")
    assert ended.code == 1
    [complaint] = ended.err.splitlines()
    assert complaint.startswith(f"elmore: standard input, line 3: {told}")


def test_bytes_that_are_no_text_are_named_and_can_be_replaced(predicted):
    ended = predicted("ner", b"caf\xe9 in Paris\n")
    assert ended.code == 1
    assert "standard input, line 1: not UTF-8" in ended.err
    assert "give --errors replace" in ended.err
    assert predicted("ner", b"caf\xe9 in Paris\n", "--errors", "replace").code == 0


def test_a_bilm_that_is_not_the_one_is_refused(predicted):
    ended = predicted("ner", SENTENCE, "--elmo", "elmore-en")
    assert ended.code == 1
    assert "is not the biLM that this model was trained with, tiny-" in ended.err
    ended = predicted("ner", SENTENCE, "--elmo", "nobody")
    assert "ner: the biLM of this model is missing: nobody: no such file or folder" in ended.err


@pytest.mark.parametrize(
    ("task", "other", "told"),
    [
        ("ner", "texts.tsv", "texts.tsv, line 1: 'good' is not a tag of spans"),
        ("sentiment", "names.conll", "names.conll, line 1, character 1: 'John\\tB-PER' is before the tree"),
        ("pos", "names.conll", "names.conll: only CoNLL-U (.conllu) has named columns"),
        ("wic", "senses.data.xml", "senses.data.xml, line 1: invalid JSON"),
        ("squad", "names.conll", "names.conll: invalid JSON: Expecting value at column 1"),
        (
            "entailment",
            "texts.tsv",
            "texts.tsv, line 1: cannot determine which of 2 columns are premise, hypothesis, label",
        ),
    ],
)
def test_data_of_another_task_is_refused_by_file_and_line(task, other, told, elmore, models):
    ended = elmore("evaluate", models[task], models[task].parent / other, "--device", "cpu")
    assert ended.code == 1
    assert told in ended.err
    assert len(ended.err.splitlines()) == 1


def test_the_score_of_a_model_is_told(elmore, models):
    ended = elmore("evaluate", models["pos"], models["pos"].parent / "tags.conllu", "--device", "cpu", "--json")
    assert json.loads(ended.out)["metric"] == "accuracy"


def test_official_predictions_of_a_file_are_written_and_other_tasks_have_none(elmore, models):
    ended = elmore("predict", models["squad"], models["squad"].parent / "squad.json", "--official", "--device", "cpu")
    assert (ended.code, ended.err) == (0, "")
    assert set(json.loads(ended.out)) == {"0-0", "0-1", "1-0", "1-1"}
    for option, told in (
        ("--json", "--json and --official contradict each other"),
        ("--errors=replace", "--errors is for raw"),
    ):
        ended = elmore("predict", models["squad"], models["squad"].parent / "squad.json", "--official", option)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith(f"elmore: {told}")
    ended = elmore("predict", models["ner"], models["ner"].parent / "names.conll", "--official", "--device", "cpu")
    assert ended.code == 1
    assert ended.err == "elmore: the task ner has no official format of predictions; use --json\n"


@pytest.mark.parametrize("task", ["srl", "coref"])
def test_columns_are_not_read_as_if_they_were_words(task, elmore, models, tmp_path):
    file = tmp_path / "test.conll"
    file.write_text("#begin document (d); part 000\nd 0 0 Hello - * - - - - * -\n#end document\n", encoding="utf-8")
    ended = elmore("predict", models[task], file, "--device", "cpu")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"elmore: {file}: is CoNLL-2012, not raw text; srl and coref read it with --official\n"
    ended = elmore("predict", models[task], file, "--device", "cpu", "--official")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out


@pytest.mark.parametrize("indent", [None, 2])
def test_a_whole_file_of_questions_is_sent_to_the_option_that_reads_it(indent, elmore, models, tmp_path):
    file = tmp_path / "dev.json"
    file.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": small_tasks.squad()}]}, indent=indent))
    ended = elmore("predict", models["squad"], file, "--device", "cpu")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        f"elmore: {file}, line 1: this looks like a file of SQuAD; use --official (in Python: official_predictions)\n"
    )
    assert elmore("predict", models["squad"], file, "--device", "cpu", "--official").code == 0


def test_reading_is_scored_by_f1_and_exact_match(elmore, models):
    data = models["squad"].parent / "squad.json"
    told = json.loads(elmore("evaluate", models["squad"], data, "--device", "cpu", "--json").out)
    assert told["metric"] == "F1"
    assert 0 <= told["exact_match"] <= told["f1"] == told["value"] <= 100
    assert elmore("evaluate", models["squad"], data, "--device", "cpu").out.startswith("exact match: ")


def test_info_tells_what_a_task_model_is(elmore, models):
    for folder in (models["ner"], models["ner"] / "model"):
        ended = elmore("info", folder)
        assert (ended.code, ended.err) == (0, "")
        told = dict(line.split("  ", 1) for line in ended.out.splitlines())
        told = {name: value.strip() for name, value in told.items()}
        assert told["task"] == "ner: names of persons, places and the like"
        assert told["license"] == "not stated"
        assert told["kinds"] == "2: LOC, PER"
        fingerprint = load_model("tiny-random").fingerprint()
        assert told["biLM"] == f"tiny-random, needed (sha256 {fingerprint[:12]}…), frozen, at the input"
        assert told["scores"].startswith("dev F1 ")
        assert "at the input, gamma " in told["mix of layers"]
        assert told["token style"] == "plain"
        assert told["trained"].startswith("4 examples, epoch ")


@pytest.mark.parametrize("task", TASKS)
def test_info_as_json_has_the_card_of_every_task(task, elmore, models):
    assert elmore("info", models[task]).code == 0
    told = json.loads(elmore("info", models[task], "--json").out)
    card = json.loads((models[task] / "model" / "task.json").read_text())
    assert {name: told[name] for name in card} == card
    assert told["elmo_inside"] is False


@pytest.mark.filterwarnings("default")
def test_the_models_inside_go_by_their_names_everywhere(elmore, models, monkeypatch, tmp_path):
    inside = tmp_path / "task_models"
    inside.mkdir()
    (inside / "pos").symlink_to(models["pos"] / "model", target_is_directory=True)
    monkeypatch.setattr(model_folder, "_SHIPPED", inside)
    monkeypatch.chdir(tmp_path)
    assert elmore("info", "pos").out == elmore("info", models["pos"]).out
    data = models["pos"].parent / "tags.conllu"
    assert elmore("evaluate", "pos", data).out == elmore("evaluate", models["pos"], data).out
    Path("text").write_text(SENTENCE)
    assert elmore("predict", "pos", "text").out == elmore("predict", models["pos"], "text").out
    ended = elmore("predict", "poss", "text")
    assert (ended.code, ended.err.splitlines()) == (
        1,
        [
            "elmore: poss: no such folder, and no model shipped with Elmore (pos); did you mean pos?",
        ],
    )
    (tmp_path / "pos").symlink_to(models["ner"], target_is_directory=True)
    ended = elmore("predict", "pos", "text")
    assert ended.code == 0
    assert "the folder pos is used" in ended.err
