"""Strings that tokenizers must not split: web and mail addresses, @names, #tags and emoticons."""

import re
from functools import cache

# An address can contain pairs of brackets. Marks at its end belong to the sentence.
_ADDRESS = r"""[^\s<>"()\[\]{}“”«»、。，]"""
# To be compiled with `re.VERBOSE`, as a whole pattern or as one alternative.
PROTECTED_PATTERN = rf"""
    (?<!\w)(?:(?:https?|ftp)://|www\.)(?:{_ADDRESS}|\({_ADDRESS}*\))*(?:(?![.,:;!?'`’…*_]){_ADDRESS}|\({_ADDRESS}*\))
    | (?<![\w.+-])\w[\w.+-]*@\w[\w-]*(?:\.\w[\w-]*)+                     # mail
    | (?<![\w@.])@(?=\w*[^\W\d_])\w+(?:\.\w+)*                           # @name
    | (?<![\w&\#/])\#(?=\w*[^\W\d_])\w+                                 # #tag, but not #1
    | (?<!\S)(?:>?[:;=]['o^-]?(?:[)(]+|[]D[PpOo/\\|*3{{}}])|\^[_.]?\^|-_+-|[oO0]_+[oO0]|T_+T|</?3|\(:|¯\\_\(ツ\)_/¯)
      (?![^\s.,;:!?)"'”’…])
    """


@cache
def protected_pattern() -> re.Pattern[str]:
    """A pattern of one such string."""
    return re.compile(PROTECTED_PATTERN, re.VERBOSE)


# Each protected string contains one of these characters, or "www.". A search for one character is fast.
_NEEDED_CHARACTER = re.compile("[@#_^:;=<]")
_NEEDED = re.compile(r"[@#_^]|://|www\.|[:;=]['o^-]?[])(D[PpOo/\\|*3{}]|</?3|\(:")


def has_protected(text: str) -> bool:
    """Whether a text contains such a string.

    >>> has_protected("see c.org (1)"), has_protected("see http://c.org/a_(1).")
    (False, True)
    """
    if not _NEEDED_CHARACTER.search(text) and "www." not in text:
        return False
    return bool(_NEEDED.search(text) and protected_pattern().search(text))
