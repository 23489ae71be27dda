"""Task data of a handful of sentences, and recipes by which they are learnt in seconds."""

import json
from pathlib import Path
from typing import Any

from elmore.tasks.core.events import Event
from elmore.tasks.core.training_run import train
from elmore.tasks.readers.conll2012 import argument_cells
from elmore.tasks.readers.tag_schemes import lenient_spans

NAMES = [
    ["John/B-PER", "lives/O", "in/O", "New/B-LOC", "York/I-LOC", "./O"],
    ["Mary/B-PER", "does/O", "n't/O", "like/O", "Paris/B-LOC", "./O"],
    ["In/O", "Paris/B-LOC", "Mary/B-PER", "Ann/I-PER", "met/O", "John/B-PER", "./O"],
    ["They/O", "slept/O", "./O"],
]
LABELED = [
    ("a great film , I like it", "good"),
    ("I hate this bad film", "bad"),
    ("great !", "good"),
    ("so bad", "bad"),
]
TREES = ["(3 (2 It) (4 (2 works) (3 (3 very) (4 well))))", "(1 (2 It) (0 (2 fails) (1 (1 very) (0 badly))))"]
PAIRS = [
    ("A man plays a guitar.", "A man makes music.", "entailment"),
    ("A man plays a guitar.", "Nobody plays.", "contradiction"),
    ("Two dogs don't sleep.", "The dogs are old.", "neutral"),
    ("Two dogs don't sleep.", "The dogs are asleep.", "contradiction"),
    ("Two dogs don't sleep.", "Nobody knows why.", "-"),
]
PARAGRAPHS = [
    ("John lives in New York. Mary doesn't.", {"Who lives in New York?": "John", "Where does John live?": "New York"}),
    ("In Paris, Mary Ann met Bob.", {"Who met Bob?": "Mary Ann", "Where did Mary meet Bob?": "Paris"}),
]
# Words, what each is to the predicate, and the lemma of the one that is it.
ROLES = [
    ["John/B-ARG0/-", "gave/B-V/give", "Mary/B-ARG2/-", "a/B-ARG1/-", "book/I-ARG1/-", "./O/-"],
    ["Mary/B-ARG0/-", "sleeps/B-V/sleep", "in/B-ARGM-LOC/-", "Paris/I-ARGM-LOC/-", "./O/-"],
    ["A/B-ARG1/-", "book/I-ARG1/-", "came/B-V/come", "that/B-C-ARG1/-", "slept/I-C-ARG1/-", "./O/-"],
    ["In/O/-", "Paris/O/-", "./O/-"],
]
# Words, and what of CoNLL-2012's last column stands at each.
COREFERENCE = [
    [
        ["John/(0)", "saw/-", "Mary/(1)", "./-"],
        ["She/(1)", "likes/-", "his/(2|(0)", "dog/2)", "./-"],
        ["It/(2)", "barks/-", "./-"],
    ],
    [["Paris/(3)", "is/-", "old/-", "./-"], ["Mary/(1)", "likes/-", "it/(3)", "./-"]],
]

TAGGER = {"task.hidden": [12], "task.dropout": 0.1, "words.character_filters": 8}
CLASSIFIER = {
    "training.learning_rate": 0.01,
    "training.epochs": 40,
    "training.patience": 20,
    "task.hidden": 8,
    "task.output_dims": [8],
    "task.input_dropout": 0.0,
    "task.feed_forward_dropout": 0.0,
    "task.pooled_dropout": 0.0,
    "task.output_dropout": 0.0,
}
SMALL: dict[str, dict[str, Any]] = {
    "ner": TAGGER,
    "pos": TAGGER,
    "sentiment": {**CLASSIFIER, "task.shortest_phrase": 1},
    "classify": CLASSIFIER,
    "entailment": {
        "task.hidden": 12,
        "task.dropout": 0.0,
        "task.attended_dropout": 0.0,
        "training.plateau_factor": 1.0,
        "training.learning_rate": 0.01,
        "training.epochs": 40,
        "training.patience": 20,
    },
    "squad": {
        "task.hidden": 12,
        "task.dropout": 0.0,
        "words.character_filters": 8,
        "training.optimizer": "adam",
        "training.learning_rate": 0.01,
        "training.average_decay": 0.9,
        "training.epochs": 60,
        "training.patience": 30,
    },
    "srl": {
        "training.optimizer": "adam",
        "training.clip": 5.0,
        "training.epochs": 10,
        "training.min_epoch_steps": 30,
        "training.patience": 2,
        "task.hidden": 16,
        "task.layers": 2,
        "task.dropout": 0.0,
        "task.predicate_dim": 8,
        "task.predicate_hidden": [8],
    },
    "coref": {
        "training.batch_size": 1,
        "training.min_epoch_steps": 30,
        "training.epochs": 10,
        "training.patience": 2,
        "training.learning_rate": 0.01,
        "task.hidden": 12,
        "task.scorer_hidden": [16],
        "task.feature_dim": 4,
        "task.lexical_dropout": 0.0,
        "task.dropout": 0.0,
        "task.max_width": 2,
        "task.spans_per_word": 2.0,  # all: of so few, chance would leave out what is to be learnt
    },
}
TRAINING = {
    "words.min_count": 1,
    "training.batch_size": 2,
    "training.learning_rate": 0.02,
    "training.epochs": 20,
    "training.patience": 6,
}
WITH_ELMO = {"elmo.model": "tiny-random", "elmo.dropout": 0.1}


def write_data(folder: Path) -> dict[str, Path]:
    """A file for each task."""
    files = {"ner": "names.conll", "pos": "tags.conllu", "sentiment": "trees.txt", "classify": "texts.tsv"}
    files |= {"entailment": "snli.jsonl", "squad": "squad.json"}
    files |= {"srl": "roles.conll", "coref": "clusters.conll"}
    paths = {task: folder / name for task, name in files.items()}
    rows = [[tuple(pair.rsplit("/", 1)) for pair in sentence] for sentence in NAMES]
    paths["ner"].write_text("\n".join("".join(f"{word}\t{tag}\n" for word, tag in row) for row in rows))
    paths["pos"].write_text(
        "\n".join("".join(_conllu(number, word) for number, (word, _) in enumerate(row, 1)) for row in rows)
    )
    paths["sentiment"].write_text("".join(f"{tree}\n" for tree in TREES))
    paths["classify"].write_text("".join(f"{text}\t{label}\n" for text, label in LABELED))
    paths["entailment"].write_text("".join(f"{_snli(*pair)}\n" for pair in PAIRS))
    paths["squad"].write_text(json.dumps({"version": "1.1", "data": [{"title": "People", "paragraphs": squad()}]}))
    paths["srl"].write_text(
        "#begin document (small); part 000\n"
        + "\n".join("".join(map(_proposition_row, *_role_columns(sentence))) for sentence in ROLES)
        + "\n#end document\n"
    )
    paths["coref"].write_text("".join(map(_coref_document, COREFERENCE)))
    return paths


def squad() -> list[dict[str, Any]]:
    """The paragraphs of a file of SQuAD."""
    paragraphs = []
    for number, (context, questions) in enumerate(PARAGRAPHS):
        asked = [
            {
                "id": f"{number}-{place}",
                "question": question,
                "answers": [{"text": answer, "answer_start": context.index(answer)}],
            }
            for place, (question, answer) in enumerate(questions.items())
        ]
        paragraphs.append({"context": context, "qas": asked})
    return paragraphs


def _snli(premise: str, hypothesis: str, label: str) -> str:
    return json.dumps({"sentence1": premise, "sentence2": hypothesis, "gold_label": label, "annotator_labels": [label]})


def _coref_document(sentences: list[list[str]]) -> str:
    rows = [["small\t0\t0\t" + "\t-\t*\t-\t-\t-\t-\t*\t".join(cell.split("/")) for cell in one] for one in sentences]
    return "\n".join(
        ["#begin document (small); part 000", *(line for one in rows for line in [*one, ""]), "#end document\n"]
    )


def _role_columns(sentence: list[str]) -> tuple[list[str], list[str], list[list[str]]]:
    """Words, lemmas, and the columns of arguments."""
    words, tags, lemmas = zip(*(cell.split("/") for cell in sentence), strict=True)
    has_predicate = any(lemma != "-" for lemma in lemmas)
    cells = argument_cells(lenient_spans(tags), len(tags))
    return list(words), list(lemmas), [[cell] if has_predicate else [] for cell in cells]


def _proposition_row(word: str, lemma: str, arguments: list[str]) -> str:
    known = ["small", "0", "0", word, "-", "*", lemma, "-" if lemma == "-" else "01", "-", "-", "*"]
    return "\t".join([*known, *arguments, "-"]) + "\n"


def _conllu(number: int, word: str) -> str:
    tag = "PUNCT" if word == "." else "PROPN" if word[0].isupper() else "VERB"
    return f"{number}\t{word}\t_\t{tag}\t{tag[0]}\t_\t_\t_\t_\t_\n"


def train_small(task: str, folder: Path, data: Path, **more: Any) -> list[Event]:
    """Train on a file and choose by the same; `more` are fields of the recipe, with __ for the dot."""
    changes = {name.replace("__", "."): value for name, value in more.items()}
    recipe = {**TRAINING, **WITH_ELMO, **SMALL[task], **changes}
    return list(train(task, folder, train=data, dev=data, recipe=recipe, device="cpu"))
