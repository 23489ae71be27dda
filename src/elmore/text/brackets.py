"""A word in [brackets]: how a user points at a place in a sentence."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from elmore.errors import InputError
from elmore.text.style import PennStyle
from elmore.text.token_style import retokenize
from elmore.text.tokenizer import Tokenizer


class BracketedWords(NamedTuple):
    """The words of a sentence without its brackets, and which of them stood in brackets."""

    words: list[str]
    bracketed: range  # empty if the brackets are


def parse_brackets(sentence: str | Sequence[str], tokenizer: Tokenizer) -> BracketedWords:
    """Find the one place in brackets, in a string or as one word of a list.

    >>> from elmore.text.style import TokenizerConfig
    >>> parse_brackets("I took a [bow].", Tokenizer(TokenizerConfig()))
    BracketedWords(words=['I', 'took', 'a', 'bow', '.'], bracketed=range(3, 4))
    >>> parse_brackets(["I", "took", "a", "[]", "."], Tokenizer(TokenizerConfig()))
    BracketedWords(words=['I', 'took', 'a', '.'], bracketed=range(3, 3))
    """
    if isinstance(sentence, str):
        if len(found := list(re.finditer(r"\[([^\[\]]*)\]", sentence))) == 1:
            start, end = found[0].span()
            # Tokenised with what the brackets hold, since a tokeniser looks at the neighbours of a mark; where that is
            # nothing, with a blank, so that the neighbours do not become one word.
            inside = found[0][1] or " "
            words, offsets = tokenizer.tokenize(sentence[:start] + inside + sentence[end:])
            before = sum(right <= start for _, right in offsets)
            after = sum(left >= start + len(inside) for left, _ in offsets)
            return BracketedWords(words, range(before, len(words) - after))
    else:
        places = [place for place, word in enumerate(sentence) if word[:1] == "[" and word[-1:] == "]"]
        if len(places) == 1:
            place, inside = places[0], [word for word in (sentence[places[0]][1:-1],) if word]
            words = [*sentence[:place], *inside, *sentence[place + 1 :]]
            return BracketedWords(words, range(place, place + len(inside)))
    raise InputError(f"put exactly one place in [brackets], as in 'I took a [bow] .'; given was {sentence!r}")


def retokenize_brackets(found: BracketedWords, tokenizer: Tokenizer, *, style: PennStyle) -> BracketedWords:
    """Turn tokens of a style into the tokeniser's words, as `retokenize` does; the place in brackets stays in them.

    Of a word that the token in brackets shares with a neighbour, it is the neighbour's, unless it has no other: in
    do [n't] the place is that of 't, behind don.

    >>> from elmore.text.style import TokenizerConfig
    >>> penn = BracketedWords(["I", "do", "n't", "know"], range(2, 3))
    >>> retokenize_brackets(penn, Tokenizer(TokenizerConfig()), style="penn")
    BracketedWords(words=['I', 'don', "'t", 'know'], bracketed=range(2, 3))
    """
    words, spans = retokenize(found.words, tokenizer, style=style)
    place = found.bracketed.start
    before = spans[place - 1].stop if place else 0
    if not found.bracketed:
        return BracketedWords(words, range(before, before))
    own = spans[place]
    after = spans[place + 1].start if place + 1 < len(spans) else len(words)
    return BracketedWords(words, range(max(own.start, before), min(own.stop, after)) or own)
