"""The vocabulary that lies beside a model: vocab.txt or the like, a word a line, perhaps gzipped."""

from fnmatch import fnmatchcase

from elmore.display import join_names
from elmore.errors import CannotExpress, FormatError, InputError
from elmore.formats.storage.container import Container
from elmore.text.vocabulary import Vocabulary

_LIKELIEST_FIRST = ("vocab.txt", "vocab.txt.gz", "vocab*.txt*")


def find_vocabulary(container: Container, *, needed: bool) -> Vocabulary | None:
    """Read it where there is one; of several a model that reads no words needs none."""
    found = _candidates(container)
    if needed and not found:
        raise FormatError("this model reads words, and its vocabulary is missing; put vocab.txt beside its weights")
    if needed and len(found) > 1:
        raise FormatError(
            f"{join_names(found)} could all be the file usually called vocab.txt; leave only one here, or name the "
            "files one by one: load(options_file=…, weight_file=…, vocabulary=…)"
        )
    return read_vocabulary(container, found[0]) if len(found) == 1 else None


def read_vocabulary(container: Container, name: str) -> Vocabulary:
    """Read one file of the published layout; FormatError if it is damaged."""
    content = container.read(name)
    try:
        return Vocabulary.decode(content)
    except InputError as error:
        raise FormatError(f"{name}: {error}") from None


def vocabulary_content(vocabulary: Vocabulary) -> bytes:
    r"""What to write into vocab.txt; CannotExpress where its readers would get another word out of it.

    >>> vocabulary_content(Vocabulary(["<S>", "</S>", "cat"]))
    b'<S>\n</S>\ncat\n'
    """
    text = "".join(f"{word}\n" for word in vocabulary.words)
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CannotExpress(f"vocab.txt cannot hold {text[error.start]!r}, which UTF-8 has no bytes for") from None
    if Vocabulary.decode(content) != vocabulary:
        lost = next(word for word in vocabulary.words if Vocabulary.decode(f"{word}\n".encode()).words != (word,))
        raise CannotExpress(f"vocab.txt cannot hold the word {lost!r}; write the format folder")
    return content


def _candidates(container: Container) -> list[str]:
    for pattern in _LIKELIEST_FIRST:
        if found := [name for name in container.names() if "/" not in name and fnmatchcase(name, pattern)]:
            return found
    return []
