"""What a manifest tells about the text: how much there is, what was left out or will be read changed, and why."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.config import CharacterConfig
from elmore.corpus.softmax_vocabulary import storable
from elmore.corpus.type_table import TypeTable


def corpus_statistics(
    types: TypeTable, is_heldout: NDArray[np.bool_], *, is_unknown: NDArray[np.bool_], dropped: Counter[str]
) -> dict[str, Any]:
    """Tell it all, ready for JSON; `is_unknown` says of each type whether the vocabulary lacks it."""
    documents = int(is_heldout.sum())
    return {
        "parts": {
            "train": _part(types.train, is_unknown, documents=len(is_heldout) - documents),
            "heldout": _part(types.heldout, is_unknown, documents=documents),
        },
        "types": len(types.words),
        "dropped": _dropped(dropped),
        "changed": _changed(types.words, types.train + types.heldout),
    }


def _part(counts: NDArray[np.int64], is_unknown: NDArray[np.bool_], *, documents: int) -> dict[str, Any]:
    tokens, unknown = int(counts[2:].sum()), int(counts[2:][is_unknown[2:]].sum())
    return {
        "documents": documents,
        "sentences": int(counts[0]) - 1,  # a stream has one boundary more
        "tokens": tokens,
        "types": int(np.count_nonzero(counts[2:])),
        "unknown_tokens": unknown,
        "unknown_share": unknown / tokens if tokens else 0.0,
    }


_WHY_DROPPED = {
    "empty_sentences": "there was no word in them",
    "boundary_words": "<S> and </S> in the text would be read as boundaries of sentences",
    "markup_lines": "<doc> and </doc> are borders of documents, not text",
    "skipped_files": "their names, inside a folder, do not look like text",
    "repeated_files": "they were named before",
}


def _dropped(dropped: Counter[str]) -> dict[str, Any]:
    """What was left out: how many of each kind, and the reason."""
    return {name: {"count": dropped[name], "why": why} for name, why in _WHY_DROPPED.items() if dropped[name]}


def _changed(types: Sequence[str], counts: NDArray[np.int64]) -> dict[str, Any]:
    """What is kept, but will not be read or predicted as it stands: how many types and tokens, and the reason."""
    limit = CharacterConfig().max_characters - 2
    kinds = {
        "long_words": (
            f"longer than {limit} bytes; a model of the published sizes reads the beginning only",
            # A character has four bytes at most, which spares encoding the rest.
            [n for n, word in enumerate(types) if 4 * len(word) > limit and len(word.encode()) > limit],
        ),
        "unlisted_words": (
            "a vocabulary file cannot hold them, for blanks at their edges, so they are <UNK> as a target",
            [n for n, word in enumerate(types) if not storable(word)],
        ),
        "replaced_characters": (
            "hold U+FFFD, which stands for bytes that were not UTF-8",
            [n for n, word in enumerate(types) if "\ufffd" in word],
        ),
    }
    return {
        name: {"types": len(numbers), "tokens": int(counts[numbers].sum()), "why": why}
        for name, (why, numbers) in kinds.items()
        if numbers
    }
