"""The lines that `predict` prints of texts."""

_AS_BLANKS = str.maketrans("\t\r\n", "   ")


def tab_separated(*cells: str) -> str:
    r"""Cells with tabs between them, and none inside; nor line ends, which JSON and Python may have in a text.

    >>> tab_separated("neutral", "One line.\nAnother.")
    'neutral\tOne line. Another.'
    """
    return "\t".join(cell.translate(_AS_BLANKS) for cell in cells)
