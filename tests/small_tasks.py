"""Task data of a handful of sentences, and recipes by which they are learnt in seconds."""

import json
from pathlib import Path
from typing import Any

from elmore.tasks.events import Event
from elmore.tasks.train_model import train

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
        "training.learning_rate": 0.02,
        "training.average_decay": 0.9,
        "training.epochs": 40,
        "training.patience": 20,
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


def _conllu(number: int, word: str) -> str:
    tag = "PUNCT" if word == "." else "PROPN" if word[0].isupper() else "VERB"
    return f"{number}\t{word}\t_\t{tag}\t{tag[0]}\t_\t_\t_\t_\t_\n"


def train_small(task: str, folder: Path, data: Path, **more: Any) -> list[Event]:
    """Train on a file and choose by the same; `more` are fields of the recipe, with __ for the dot."""
    changes = {name.replace("__", "."): value for name, value in more.items()}
    recipe = {**TRAINING, **WITH_ELMO, **SMALL[task], **changes}
    return list(train(task, folder, train=data, dev=data, recipe=recipe, device="cpu"))
