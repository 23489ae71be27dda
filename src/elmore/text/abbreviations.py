"""English words that a stop belongs to."""

import re
from functools import cache

# What is cited with a number, in English and German: a stop between the two ends no sentence.
COUNTED = (
    r"[Vv]ols?|[Nn]rs?|Nos?|[Ff]igs?|[Tt]ab|[Ee]qs?|[Ss]ect?s?|[Cc]h|[Cc]haps?|[Pp]t|[Pp]p?|[Bb]k|[Oo]p|[Aa]rt|[Rr]efs?|"
    r"[Vv]er|[Bb]d|[Aa]bb|[Cc]a|approx"
)
NUMBER = r"[0-9]|[IVXLC]+\b"


@cache
def abbreviations() -> str:
    """A pattern for those that are one whatever follows: Moses's list, initials among them, and some more."""
    # Imported here: its tables of characters take most of a second.
    from sacremoses.corpus import NonbreakingPrefixes

    listed = {entry for entry in NonbreakingPrefixes().words("en") if not entry.endswith("#NUMERIC_ONLY#")}
    # Longest first, for a pattern takes the first that fits.
    every = sorted((listed - _WORDS) | set(_FURTHER.split()), key=lambda one: (-len(one), one))
    return "|".join(re.escape(one) for one in every)


_WORDS = {"Bart", "Con", "Mar"}  # in Moses's list, and as often words or names that end a sentence
_FURTHER = (
    "etc al eg ie esp approx ext est vs oz lb lbs yr yrs hr hrs min mins vol fig "
    "Inc Ltd Co Jr Esq Attn Ave Blvd Dept Ft Mt Ext Vol Fig Sec Sept "
    "Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun "
    "Ala Ariz Calif Colo Conn Fla Ga Ill Ind Ky La Mass Md Mich Minn Nev Okla Ont Ore Pa Que Tenn Tex Va Wash Wis"
)
