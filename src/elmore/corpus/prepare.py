"""Raw text becomes a corpus on disk that the trainer reads memory-mapped.

Three passes, none of which holds the text: split, tokenise and number every sentence into a draft (the long one, shared
by many processes); count the words of each part; write both parts with the words renumbered by falling count. To the
byte, the result depends on the input and the options alone.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from elmore.corpus.corpus import CLASSES, HELDOUT, TRAIN, TYPES, UNKNOWN, VOCABULARY, Corpus, CorpusWriter
from elmore.corpus.documents import blocks_of, common_format, read_documents
from elmore.corpus.heldout import choose_heldout, split_heldout
from elmore.corpus.numbering import Draft
from elmore.corpus.softmax_vocabulary import most_frequent, read_softmax_vocabulary, warn_if_unfit
from elmore.corpus.statistics import corpus_statistics
from elmore.corpus.type_table import TypeTable
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
) -> Corpus:  # more than eight arguments: each is an option of its own, which users name
    r"""Write a prepared corpus to the folder `output`, whole or not at all, and open it.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "text.txt").write_text("The cat sat. The dog ran.\n\nA bird sang.\n")
    >>> corpus = prepare([folder / "text.txt"], folder / "corpus", heldout=0.5, workers=1)
    >>> len(corpus.types), corpus.vocabulary.words[:4], corpus.manifest.parts["train"].documents
    (11, ('<S>', '</S>', '<UNK>', '.'), 1)

    `inputs` are paths, folders, globs or "-". Without an `input_format` their names tell FASTA from text. `paragraphs`
    says whether a line of text is a paragraph or goes on until a blank one; None finds out. The softmax vocabulary is
    the `vocabulary_size` most frequent words, its three marks included, or the file `vocabulary` as it is. `heldout` is
    the share of documents to hold out, at least one if there are two. `workers` is the number of processes, by default
    the number of CPUs that this process may use.
    """
    _check_values(heldout=heldout, language=language, lowercase=lowercase, seed=seed, errors=errors)
    _check_values(input_format=input_format, paragraphs=paragraphs, vocabulary_size=vocabulary_size, workers=workers)
    _check_ranges(vocabulary_size=vocabulary_size, vocabulary=vocabulary, heldout=heldout, workers=workers)
    found = find_inputs(inputs, formats=get_args(CorpusFormat))
    kind = common_format(found.files, input_format)
    style = _style(kind, language=language, lowercase=lowercase)
    given = None if vocabulary is None else read_softmax_vocabulary(Path(vocabulary))
    with atomic_write_folder(output) as folder:
        draft = Draft(folder / "draft.bin")
        on_read = progress.read if progress else None
        documents = partial(
            read_documents, format=kind, paragraphs=paragraphs, errors=errors, dropped=draft.dropped, on_read=on_read
        )
        blocks = blocks_of(chain.from_iterable(map(documents, found.files)), characters=BLOCK_CHARACTERS)
        draft.write(_checked(blocks, style), style=style, workers=workers or available_cpus(), progress=progress)
        if not draft.documents:
            raise InputError(
                f"{join_names([display_name(file) for file in found.files])}: no words, so nothing to prepare"
            )
        is_heldout = _heldout_documents(draft.documents, share=float(heldout), seed=int(seed))
        types = TypeTable.of(draft, is_heldout)
        chosen = given or most_frequent(types.words, types.train, size=vocabulary_size or DEFAULT_VOCABULARY_SIZE)
        facts = {
            "vocabulary": {"words": len(chosen), "origin": _origin(given, types, file=vocabulary)},
            "seed": int(seed),
            "heldout_share": float(heldout),
            "inputs": [{"name": display_name(file), "bytes": _size(file)} for file in found.files],
        }
        draft.dropped.update(found.skipped)
        _write_corpus(folder, draft, is_heldout, types, vocabulary=chosen, style=style, facts=facts)
    return Corpus.open(output)


_PLAIN_VALUES = {"heldout": float, "language": str, "lowercase": bool, "seed": int, "errors": DecodingErrors}
_OPTIONAL_VALUES = {"input_format": CorpusFormat, "paragraphs": Paragraphs, "vocabulary_size": int, "workers": int}


def _check_values(**values: object) -> None:
    """Check the types of plain options, before any text is read."""
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
        raise InputError(
            "vocabulary_size and vocabulary were both given; a vocabulary is either counted or taken from a file"
        )
    if vocabulary_size is not None and vocabulary_size < 4:
        raise InputError(f"vocabulary_size is {vocabulary_size}; it must be at least 4: <S>, </S>, <UNK> and a word")
    if not 0 <= heldout < 1:
        raise InputError(f"heldout is {heldout}; it must be a share from 0 to below 1, as in 0.005")
    if workers is not None and workers < 1:
        raise InputError(f"workers is {workers}; it must be at least 1")


def _style(format: CorpusFormat, *, language: str, lowercase: bool) -> TokenizerConfig:  # noqa: A002
    if format == "fasta" and lowercase:
        raise InputError("lowercase is for text; the residues of FASTA are read in capitals")
    tokenizers: dict[CorpusFormat, TokenizerName] = {"text": "moses", "tokenized": "whitespace", "fasta": "characters"}
    style = TokenizerConfig(
        tokenizer=tokenizers[format], tokenizer_version=TOKENIZER_VERSION, language=language, lowercase=lowercase
    )
    # Tried out here, so that what it has to say about the language is said before the work, and once.
    Tokenizer(style).tokenize("")
    return style


def _heldout_documents(documents: int, *, share: float, seed: int) -> NDArray[np.bool_]:
    is_heldout = choose_heldout(documents, share=share, seed=seed)
    if share and not is_heldout.any():
        message = (
            "the input is one document, so nothing was held out; put blank lines between documents, "
            "two where lines are hard-wrapped"
        )
        warnings.warn(message, InputWarning, stacklevel=3)
    return is_heldout


def _checked(blocks: Iterator[str], style: TokenizerConfig) -> Iterator[str]:
    """Pass blocks on; here because the processes that tokenise them do not speak."""
    for block in blocks:
        if style.tokenizer == "moses":
            warn_about_unsegmented(block)
        yield block


def _origin(given: Vocabulary | None, types: TypeTable, *, file: str | Path | None) -> str:
    """Where the softmax vocabulary comes from; one that was given is compared with the text."""
    if given is None:
        return "the most frequent words of the training part"
    warn_if_unfit(given, types.words, types.train, where=str(file))
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
    """Write the streams from the draft, which is gone afterwards, the tables, and the manifest."""
    unknown = vocabulary.index[UNKNOWN]
    classes = np.array([vocabulary.index.get(word, unknown) for word in types.words], dtype=np.uint32)
    writer = CorpusWriter(folder)
    with writer.open_stream(TRAIN) as train, writer.open_stream(HELDOUT) as heldout:
        for parts in split_heldout(draft.chunks(), is_heldout):
            train.append(types.renumbered[parts.train])
            heldout.append(types.renumbered[parts.heldout])
    draft.path.unlink()
    writer.write_words(TYPES, types.words)
    writer.write_words(VOCABULARY, vocabulary.words)
    writer.write_array(CLASSES, classes, "<u4")
    statistics = corpus_statistics(types, is_heldout, is_unknown=classes == unknown, dropped=draft.dropped)
    writer.write_manifest({"written_by": f"elmore {__version__}", "text": asdict(style), **statistics, **facts})


def _size(file: str) -> int | None:
    """The bytes of a file; of a pipe nobody can say."""
    return Path(file).stat().st_size if Path(file).is_file() else None
