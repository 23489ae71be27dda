"""What no tokeniser may cut: web and mail addresses, @names, #tags and emoticons."""

import re

# An address may hold brackets in pairs; marks at its end belong to the sentence.
_ADDRESS = r"""[^\s<>"()\[\]{}“”«»、。，]"""
# To be compiled with `re.VERBOSE`, alone or among others.
PROTECTED_PATTERN = rf"""
    (?<!\w)(?:(?:https?|ftp)://|www\.)(?:{_ADDRESS}|\({_ADDRESS}*\))*(?:(?![.,:;!?'`’…*_]){_ADDRESS}|\({_ADDRESS}*\))
    | (?<![\w.+-])\w[\w.+-]*@\w[\w-]*(?:\.\w[\w-]*)+                     # mail
    | (?<![\w@.])@(?=\w*[^\W\d_])\w+(?:\.\w+)*                           # @name
    | (?<![\w&\#/])\#(?=\w*[^\W\d_])\w+                                 # #tag, but no #1
    | (?<!\S)(?:>?[:;=]['o^-]?(?:[)(]+|[]D[PpOo/\\|*3{{}}])|\^[_.]?\^|-_+-|[oO0]_+[oO0]|T_+T|</?3|\(:|¯\\_\(ツ\)_/¯)
      (?![^\s.,;:!?)"'”’…])
    """
PROTECTED = re.compile(PROTECTED_PATTERN, re.VERBOSE)
# What each of them has to hold, found sooner: here every way begins with a character, not with a condition.
_HINT = re.compile(r"[@#_^]|://|www\.|[:;=]['o^-]?[])(D[PpOo/\\|*3{}]|</?3|\(:")


def holds_protected(text: str) -> bool:
    """Whether there is anything of the kind in a text.

    >>> holds_protected("see c.org (1)"), holds_protected("see http://c.org/a_(1).")
    (False, True)
    """
    return bool(_HINT.search(text) and PROTECTED.search(text))
