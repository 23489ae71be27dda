"""Raw text becomes a corpus on disk that the trainer reads memory-mapped.

Three passes, none of which holds the text: split, tokenise and number every sentence into a draft (the long one, shared
by many processes); count the words of each part; write both parts with the words renumbered by falling count. The result
depends on the input and the options alone, to the byte.
"""

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmore.errors import InputError, InputWarning, shortened
from elmore.files import DecodingErrors, name_of, writing_folder
from elmore.pretraining.account import changed_words, dropped_text, part_facts
from elmore.pretraining.corpus import CLASSES, COUNTS, HELDOUT, TRAIN, TYPES, UNKNOWN, VOCABULARY, Corpus, CorpusWriter
from elmore.pretraining.documents import blocks_of, read_documents
from elmore.pretraining.holdout import held_out, split_off
from elmore.pretraining.inputs import CorpusFormat, Inputs, find_inputs
from elmore.pretraining.numbering import Draft
from elmore.pretraining.softmax_vocabulary import most_frequent, read_vocabulary, warn_if_unfit
from elmore.progress import Progress
from elmore.text.style import TextStyle, TokenizerName
from elmore.text.tokenizing import Tokenizer
from elmore.version import __version__

DEFAULT_VOCAB_SIZE = 50_000
DEFAULT_HELDOUT = 0.005


def prepare(
    inputs: Sequence[str],
    output: str | Path,
    *,
    input_format: CorpusFormat | None = None,
    vocab_size: int | None = None,
    vocab: str | Path | None = None,
    heldout: float = DEFAULT_HELDOUT,
    language: str = "en",
    lowercase: bool = False,
    seed: int = 1,
    errors: DecodingErrors = "strict",
    workers: int | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """Write a prepared corpus to the folder `output`, whole or not at all, and open it.

    `inputs` are paths, folders, globs or "-". Without an `input_format` their names tell FASTA from text. The softmax
    vocabulary is the `vocab_size` most frequent words (50,000, its three marks included) or the file `vocab` as it is.
    `heldout` is the share of documents to hold out, at least one if there are two. Without `workers` every core works.
    """
    _check_options(vocab_size=vocab_size, vocab=vocab, heldout=heldout, workers=workers)
    found = find_inputs(inputs, format=input_format)
    style = _style(found.format, language=language, lowercase=lowercase)
    given = None if vocab is None else read_vocabulary(Path(vocab))
    with writing_folder(output) as folder:
        draft = Draft(folder / "draft.bin")
        lines = _lines(found, errors, draft.dropped)
        draft.write(blocks_of(lines), style=style, workers=workers or _cores(), progress=progress)
        if not draft.documents:
            raise InputError(f"{shortened([name_of(file) for file in found.files])}: no words, so nothing to prepare")
        held = held_out(draft.documents, share=heldout, seed=seed)
        if heldout and not held.any():
            message = "the input is one document, so nothing was held out; put blank lines between documents"
            warnings.warn(message, InputWarning, stacklevel=2)

        words = draft.words
        train_counts, heldout_counts = _counts(draft, held, types=len(words))
        ranking = _ranking(words, train_counts)
        types, train_counts, heldout_counts = [words[n] for n in ranking], train_counts[ranking], heldout_counts[ranking]
        vocabulary = given or most_frequent(types, train_counts, size=vocab_size or DEFAULT_VOCAB_SIZE)
        unknown = vocabulary.index[UNKNOWN]
        classes = np.array([vocabulary.index.get(word, unknown) for word in types], dtype=np.uint32)
        if given:
            warn_if_unfit(given, types, train_counts, where=str(vocab))

        writer = CorpusWriter(folder)
        _write_streams(writer, draft, held, ranking)
        draft.path.unlink()
        writer.words(TYPES, types)
        writer.numbers(COUNTS, train_counts + _opening_boundary(train_counts), "<u8")
        writer.words(VOCABULARY, vocabulary.words)
        writer.numbers(CLASSES, classes, "<u4")
        ...
    return Corpus.open(output)
