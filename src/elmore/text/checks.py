"""Does tokenised input look as the model expects it? Says so in a sentence where it does not.

Vectors come out of any input, so a wrong preparation shows only as worse results, months later. Each check looks for
a mark of one such mistake, and compares with what the same text looks like without it, so that an odd word here and
there raises no alarm.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from elmore.errors import InputWarning
from elmore.text.style import TokenizerConfig
from elmore.text.token_style_detection import detect_token_style, find_penn_marker

SENTENCES_CHECKED = 200

_Sentences = Sequence[Sequence[str]]


class InputCheck:
    """Looks at the first sentences that a reader is given, in however many calls, and says what looks wrong with them.

    It speaks once: who was told and goes on has reasons.
    """

    def __init__(self, style: TokenizerConfig) -> None:
        self.style = style
        self.left = SENTENCES_CHECKED  # to be looked at

    def look(self, sentences: _Sentences, *more: str | None, stacklevel: int) -> None:
        """Warn of what looks wrong with these sentences, and of what else the caller found."""
        if not self.left:
            return
        self.left = max(0, self.left - len(sentences))
        for message in (*warnings_about(sentences, self.style), *more):
            if message is not None:
                self.left = 0
                warnings.warn(message, InputWarning, stacklevel=stacklevel + 1)

    def passed(self, sentences: Iterable[list[str]]) -> Iterator[list[str]]:
        """Pass sentences on, and look at the first of them."""
        source = iter(sentences)
        first = list(islice(source, self.left))
        self.look(first, stacklevel=2)
        yield from first
        yield from source


def warnings_about(sentences: _Sentences, style: TokenizerConfig) -> list[str]:
    """What looks wrong with these sentences for a model of this style; usually nothing.

    >>> warnings_about([["Yes,", "I", "did", "it."]], TokenizerConfig())
    ["the input looks untokenised ('Yes,'): give plain strings or leave out --tokenized, and the model finds the words"]
    >>> warnings_about([["Yes", ",", "I", "did", "it", "."]], TokenizerConfig())
    []
    """
    found = [_padding(sentences), _boundaries(sentences)]
    if style.tokenizer == "moses":
        found += _untokenised(sentences), _penn_style(sentences)
    if style.tokenizer != "characters" and not style.escape:
        found.append(_escaped(sentences))
    # Of what blanks divide nothing is known: a model of prepared text may never have seen a capital.
    if style.tokenizer not in ("characters", "whitespace") and not style.lowercase:
        found.append(_lowercased(sentences))
    return [warning for warning in found if warning]


_PADDING = {"", "<PAD>", "<pad>", "[PAD]", "[pad]"}


def _padding(sentences: _Sentences) -> str | None:
    for sentence in sentences:
        for word in sentence:
            if word in _PADDING:
                return (
                    f"the input holds {word!r} as a word, which looks like padding: leave it out, for it would be read "
                    "as text; sentences may have any length"
                )
    return None


_BEGINNINGS = {"<S>", "<s>", "<bos>", "[CLS]"}
_ENDS = {"</S>", "</s>", "<eos>", "[SEP]"}


def _boundaries(sentences: _Sentences) -> str | None:
    # One such sentence may be about the marks; a file of them was prepared so.
    if len(sentences) < 2 or not all(
        len(sentence) >= 2 and sentence[0] in _BEGINNINGS and sentence[-1] in _ENDS for sentence in sentences
    ):
        return None
    return f"every sentence stands between marks like {sentences[0][0]!r}: leave them out, the model adds its own"


_GLUED = re.compile(r"[^\W\d_]{2,}[,;:!?][\"'”’)]*")
_GLUED_FULL_STOP = re.compile(r"[^\W\d_]{2,}\.[\"'”’)]*")
_ALONE = re.compile(r"[.,;:!?]+")


def _untokenised(sentences: _Sentences) -> str | None:
    glued = [word for sentence in sentences for word in sentence if _GLUED.fullmatch(word)]
    # Full stops inside a sentence belong to abbreviations; one at the end, glued, ends an untokenised sentence.
    glued += [sentence[-1] for sentence in sentences if sentence and _GLUED_FULL_STOP.fullmatch(sentence[-1])]
    alone = sum(1 for sentence in sentences for word in sentence if _ALONE.fullmatch(word))
    # Two at least, for Moses itself leaves the "Inc." that ends a sentence.
    if len(glued) < 2 or len(glued) <= alone:
        return None
    return (
        f"the input looks untokenised ({glued[0]!r}): give plain strings or leave out --tokenized, and the model finds "
        "the words"
    )


def _penn_style(sentences: _Sentences) -> str | None:
    if (sign := find_penn_marker(sentences)) is None:
        return None
    style = detect_token_style(sentences)
    return (
        f"the tokens look Penn-style ({sign!r}), and this model was trained on Moses-style ones, don 't and (: have "
        f"them converted with token_style={style!r} (--token-style {style}), every token keeps a vector of its own"
    )


_ENTITY = re.compile(r"&(?:amp|apos|quot|lt|gt|#\d+|#x[0-9A-Fa-f]+);")
_ESCAPABLE = re.compile("[&'\"]")  # not < and >, which stand in marks such as <unk>


def _escaped(sentences: _Sentences) -> str | None:
    escaped = [word for sentence in sentences for word in sentence if _ENTITY.search(word)]
    if not escaped:
        return None
    plain = sum(1 for sentence in sentences for word in sentence if _ESCAPABLE.search(_ENTITY.sub("", word)))
    if len(escaped) <= plain:
        return None
    return (
        f"the input looks HTML-escaped ({escaped[0]!r}), and this model was trained on plain characters: undo it, as "
        "with Python's html.unescape"
    )


# Georgian is not here: its letters have capitals in Unicode, and nobody writes them.
_SMALL = re.compile("[a-zß-öø-ÿα-ωа-яёա-ֆ]")


def _lowercased(sentences: _Sentences) -> str | None:
    # Lists of single words are rightly written small.
    texts = ["".join(sentence) for sentence in sentences if len(sentence) >= 3]
    if len(texts) < 10 or sum(1 for text in texts if _SMALL.search(text)) < 10:
        return None
    if any(text != text.lower() for text in texts):
        return None
    return (
        "the input has no capital letter, and this model was trained on text with capitals: give it the text as it "
        "was written, where you can"
    )
