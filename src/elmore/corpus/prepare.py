"""Prepare a corpus: raw text becomes a folder that the trainer reads memory-mapped.

There are three passes in bounded memory: split, tokenize and number every sentence into a draft (the slow pass, in
several processes); count the words of each part; write both parts with the words numbered by decreasing count. The
bytes of the result depend only on the input and the options.
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from elmore.config import CharacterConfig
from elmore.corpus.corpus import CLASSES, HELDOUT, TRAIN, TYPES, UNKNOWN, VOCABULARY, Corpus, CorpusWriter
from elmore.corpus.documents import common_format, group_lines, read_documents
from elmore.corpus.draft import Draft, TypeTable, choose_heldout, split_heldout
from elmore.corpus.softmax_vocabulary import (
    fits_vocabulary_file,
    most_frequent,
    read_softmax_vocabulary,
    warn_about_mismatch,
)
from elmore.cpus import available_cpus
from elmore.defaults import DEFAULT_HELDOUT_SHARE, DEFAULT_PREPARE_SEED, DEFAULT_VOCABULARY_SIZE
from elmore.display import join_names
from elmore.errors import InputError, InputWarning
from elmore.fields import check_value
from elmore.files.atomic_files import atomic_write_folder
from elmore.files.input_files import CorpusFormat, find_inputs
from elmore.files.text_files import DEFAULT_ERRORS, DecodingErrors, display_name
from elmore.progress import Progress
from elmore.text.paragraphs import Paragraphs
from elmore.text.style import DEFAULT_LANGUAGE, TOKENIZER_VERSION, TokenizerConfig, TokenizerName
from elmore.text.tokenizer import Tokenizer, warn_about_unsegmented
from elmore.text.vocabulary import Vocabulary
from elmore.version import __version__

BLOCK_CHARACTERS = 1 << 19


def prepare(
    inputs: Sequence[str | Path],
    output: str | Path,
    *,
    input_format: CorpusFormat | None = None,
    paragraphs: Paragraphs | None = None,
    vocabulary_size: int | None = None,
    vocabulary: str | Path | None = None,
    heldout: float = DEFAULT_HELDOUT_SHARE,
    language: str = DEFAULT_LANGUAGE,
    lowercase: bool = False,
    seed: int = DEFAULT_PREPARE_SEED,
    errors: DecodingErrors = DEFAULT_ERRORS,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Corpus:
    r"""Write a prepared corpus to the folder `output`, completely or not at all, and open it.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "text.txt").write_text("The cat sat. The dog ran.\n\nA bird sang.\n")
    >>> corpus = prepare([folder / "text.txt"], folder / "corpus", heldout=0.5, workers=1)
    >>> len(corpus.types), corpus.vocabulary.words[:4], corpus.manifest.parts["train"].documents
    (11, ('<S>', '</S>', '<UNK>', '.'), 1)

    `inputs` are paths, folders, globs or "-". Without an `input_format`, file names distinguish FASTA from text.
    `paragraphs` is the end of a paragraph in text: each line, or a blank line; None detects it. The softmax vocabulary
    is the `vocabulary_size` most frequent words, including its three marks, or the file `vocabulary`. `heldout` is the
    share of documents to hold out: at least one of two or more. `workers` is the number of processes, by default the
    number of CPUs that this process may use.
    """
    _check_values(heldout=heldout, language=language, lowercase=lowercase, seed=seed, errors=errors)
    _check_values(input_format=input_format, paragraphs=paragraphs, vocabulary_size=vocabulary_size, workers=workers)
    _check_ranges(vocabulary_size=vocabulary_size, vocabulary=vocabulary, heldout=heldout, workers=workers)
    source = find_inputs(inputs, formats=get_args(CorpusFormat))
    kind = common_format(source.files, input_format)
    style = _style(kind, language=language, lowercase=lowercase)
    file_vocabulary = None if vocabulary is None else read_softmax_vocabulary(Path(vocabulary))
    with atomic_write_folder(output) as folder:
        draft = Draft(folder / "draft.bin")
        on_read = progress.read if progress else None
        documents = partial(
            read_documents, format=kind, paragraphs=paragraphs, errors=errors, dropped=draft.dropped, on_read=on_read
        )
        blocks = group_lines(chain.from_iterable(map(documents, source.files)), characters=BLOCK_CHARACTERS)
        draft.write(
            _warn_about_script(blocks, style), style=style, workers=workers or available_cpus(), progress=progress
        )
        if not draft.documents:
            raise InputError(
                f"{join_names([display_name(file) for file in source.files])}: no words, so nothing to prepare"
            )
        is_heldout = _heldout_documents(draft.documents, share=float(heldout), seed=int(seed))
        types = TypeTable.of(draft, is_heldout)
        chosen = file_vocabulary or most_frequent(
            types.words, types.train, size=vocabulary_size or DEFAULT_VOCABULARY_SIZE
        )
        facts = {
            "vocabulary": {"words": len(chosen), "origin": _origin(file_vocabulary, types, file=vocabulary)},
            "seed": int(seed),
            "heldout_share": float(heldout),
            "inputs": [{"name": display_name(file), "bytes": _size(file)} for file in source.files],
        }
        draft.dropped.update(source.skipped)
        _write_corpus(folder, draft, is_heldout, types, vocabulary=chosen, style=style, facts=facts)
    return Corpus.open(output)


_PLAIN_VALUES = {"heldout": float, "language": str, "lowercase": bool, "seed": int, "errors": DecodingErrors}
_OPTIONAL_VALUES = {"input_format": CorpusFormat, "paragraphs": Paragraphs, "vocabulary_size": int, "workers": int}


def _check_values(**values: object) -> None:
    """Check the types of plain options before any text is read."""
    for name, value in values.items():
        if value is not None or name in _PLAIN_VALUES:
            check_value(name, value, _PLAIN_VALUES.get(name) or _OPTIONAL_VALUES[name])


def _check_ranges(
    *,
    vocabulary_size: int | None,
    vocabulary: str | Path | None,
    heldout: float,
    workers: int | None,
) -> None:
    if vocabulary_size is not None and vocabulary is not None:
        raise InputError("give vocabulary_size or vocabulary, not both: the words are counted, or read from the file")
    if vocabulary_size is not None and vocabulary_size < 4:
        raise InputError(f"vocabulary_size is {vocabulary_size}; it must be at least 4: <S>, </S>, <UNK> and a word")
    if not 0 <= heldout < 1:
        raise InputError(f"heldout is {heldout}; it must be a share from 0 to below 1, as in 0.005")
    if workers is not None and workers < 1:
        raise InputError(f"workers is {workers}; it must be at least 1")


def _style(format: CorpusFormat, *, language: str, lowercase: bool) -> TokenizerConfig:  # noqa: A002
    if format == "fasta" and lowercase:
        raise InputError("lowercase is for text; FASTA is read in upper case")
    tokenizers: dict[CorpusFormat, TokenizerName] = {"text": "moses", "tokenized": "whitespace", "fasta": "characters"}
    style = TokenizerConfig(
        tokenizer=tokenizers[format], tokenizer_version=TOKENIZER_VERSION, language=language, lowercase=lowercase
    )
    # Tokenized here, so that warnings about the language appear before the work, and once.
    Tokenizer(style).tokenize("")
    return style


def _heldout_documents(documents: int, *, share: float, seed: int) -> NDArray[np.bool_]:
    is_heldout = choose_heldout(documents, share=share, seed=seed)
    if share and not is_heldout.any():
        message = (
            "the input is one document, so nothing was held out; put blank lines between documents, "
            "two if lines are hard-wrapped"
        )
        warnings.warn(message, InputWarning, stacklevel=3)
    return is_heldout


def _warn_about_script(blocks: Iterator[str], style: TokenizerConfig) -> Iterator[str]:
    """Warn about text of another script here, because the worker processes print no warnings."""
    for block in blocks:
        if style.tokenizer == "moses":
            warn_about_unsegmented(block)
        yield block


def _origin(vocabulary: Vocabulary | None, types: TypeTable, *, file: str | Path | None) -> str:
    """The origin of the softmax vocabulary; a vocabulary from a file is compared with the text."""
    if vocabulary is None:
        return "the most frequent words of the training part"
    warn_about_mismatch(vocabulary, types.words, types.train, where=str(file))
    return f"the file {file}"


def _write_corpus(
    folder: Path,
    draft: Draft,
    is_heldout: NDArray[np.bool_],
    types: TypeTable,
    *,
    vocabulary: Vocabulary,
    style: TokenizerConfig,
    facts: Mapping[str, Any],
) -> None:
    """Write the streams, the tables and the manifest, and delete the draft."""
    unknown = vocabulary.index[UNKNOWN]
    classes = np.array([vocabulary.index.get(word, unknown) for word in types.words], dtype=np.uint32)
    writer = CorpusWriter(folder)
    with writer.open_stream(TRAIN) as train, writer.open_stream(HELDOUT) as heldout:
        for parts in split_heldout(draft.chunks(), is_heldout):
            train.append(types.final_numbers[parts.train])
            heldout.append(types.final_numbers[parts.heldout])
    draft.path.unlink()
    writer.write_words(TYPES, types.words)
    writer.write_words(VOCABULARY, vocabulary.words)
    writer.write_array(CLASSES, classes, "<u4")
    statistics = _statistics(types, is_heldout, is_unknown=classes == unknown, dropped=draft.dropped)
    writer.write_manifest({"written_by": f"elmore {__version__}", "text": asdict(style), **statistics, **facts})


def _statistics(
    types: TypeTable, is_heldout: NDArray[np.bool_], *, is_unknown: NDArray[np.bool_], dropped: Counter[str]
) -> dict[str, Any]:
    """The size of the text, and what was dropped or will be changed, with reasons; `is_unknown` is per type."""
    documents = int(is_heldout.sum())
    return {
        "parts": {
            "train": _part(types.train, is_unknown, documents=len(is_heldout) - documents),
            "heldout": _part(types.heldout, is_unknown, documents=documents),
        },
        "types": len(types.words),
        "dropped": {name: {"count": dropped[name], "why": why} for name, why in _WHY_DROPPED.items() if dropped[name]},
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
    "empty_sentences": "they contain no word",
    "boundary_words": "<S> and </S> in the text would be read as boundaries of sentences",
    "markup_lines": "<doc> and </doc> are borders of documents, not text",
    "skipped_files": "their names, inside a folder, do not look like text",
    "repeated_files": "they are listed twice",
}


def _changed(types: Sequence[str], counts: NDArray[np.int64]) -> dict[str, Any]:
    """Words that the model will read or predict in another form: the number of types and tokens, and the reason."""
    limit = CharacterConfig().max_characters - 2
    kinds = {
        "long_words": (
            f"longer than {limit} bytes; a model of the published sizes reads the beginning only",
            # A character has at most four bytes, so most words need not be encoded.
            [n for n, word in enumerate(types) if 4 * len(word) > limit and len(word.encode()) > limit],
        ),
        "unlisted_words": (
            "a vocabulary file cannot contain them, because of spaces at their ends, so as targets they are <UNK>",
            [n for n, word in enumerate(types) if not fits_vocabulary_file(word)],
        ),
        "replaced_characters": (
            "contain U+FFFD in place of bytes that were not UTF-8",
            [n for n, word in enumerate(types) if "\ufffd" in word],
        ),
    }
    return {
        name: {"types": len(numbers), "tokens": int(counts[numbers].sum()), "why": why}
        for name, (why, numbers) in kinds.items()
        if numbers
    }


def _size(file: str) -> int | None:
    """The bytes of a file; None for a pipe."""
    return Path(file).stat().st_size if Path(file).is_file() else None
