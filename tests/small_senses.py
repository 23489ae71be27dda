"""Word senses and words in context of a handful of sentences, and recipes by which they are learnt in seconds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from elmore.tasks.core.events import Event
from elmore.tasks.core.training_run import train

# WordNet's order, which is not that of the keys; of "stern" and "take_a_bow" there is nothing to learn from below.
INDEX = """bow%1:11:00:: 00000001 1 9
bow%1:06:00:: 00000002 2 5
bow%2:38:00:: 00000003 1 3
stern%1:06:00:: 00000004 1 1
stern%1:08:00:: 00000005 2 0
take_a_bow%2:32:00:: 00000006 1 0
"""
GREETING, WEAPON, BEND = "bow%1:11:00::", "bow%1:06:00::", "bow%2:38:00::"

# A sentence: words, and targets as (text, lemma, part of speech, keys).
Target = tuple[str, str, str, str]
SENTENCES: list[list[str | Target]] = [
    ["The", "actors", "took", "a", ("bow", "bow", "NOUN", GREETING), "."],
    ["She", "drew", "the", ("bow", "bow", "NOUN", WEAPON), "and", "shot", "an", "arrow", "."],
    ["He", "made", "a", "deep", ("bow", "bow", "NOUN", GREETING), "to", "the", "queen", "."],
    ["They", ("bow", "bow", "VERB", BEND), "to", "no", "one", "."],
    ["A", "hunter", "with", "his", ("bow", "bow", "NOUN", WEAPON), "came", "."],
    ["Nothing", "happens", "here", "."],
]
SMALL = {
    "elmo.model": "tiny-random",
    "elmo.dropout": 0.1,
    "training.batch_size": 2,
    "training.learning_rate": 0.02,
    "training.epochs": 80,
    "training.patience": 40,
}


def write_wsd(folder: Path, name: str, sentences: Sequence[Sequence[str | Target]]) -> Path:
    """An XML file, and its keys beside it."""
    lines, keys = ['<corpus lang="en"><text id="d0">'], []
    for number, sentence in enumerate(sentences):
        lines.append(f'<sentence id="s{number}">')
        for place, word in enumerate(sentence):
            if isinstance(word, str):
                lines.append(f"<wf>{escape(word)}</wf>")
                continue
            text, lemma, pos, own = word
            lines.append(f'<instance id="s{number}.t{place}" lemma={quoteattr(lemma)} pos="{pos}">{text}</instance>')
            keys.append(f"s{number}.t{place} {own}")
        lines.append("</sentence>")
    path = folder / f"{name}.data.xml"
    path.write_text("\n".join([*lines, "</text></corpus>"]))
    (folder / f"{name}.gold.key.txt").write_text("".join(f"{line}\n" for line in keys))
    return path


def write_index(folder: Path) -> Path:
    path = folder / "index.sense"
    path.write_text(INDEX)
    return path


def train_small(task: str, folder: Path, data: Path, *, dev: Path | None = None, **more: Any) -> list[Event]:
    """Train on a file and choose by the same, or by `dev`; `more` are fields of the recipe, with __ for the dot."""
    recipe = {**SMALL, **{name.replace("__", "."): value for name, value in more.items()}}
    return list(train(task, folder, train=data, dev=dev or data, recipe=recipe, device="cpu"))
