"""Trees of the Stanford Sentiment Treebank: one a line, `(3 (2 It) (4 works))`, every phrase with its label."""

import re
from pathlib import Path
from typing import NamedTuple

from elmore.display import pluralize
from elmore.errors import InputError
from elmore.files.text_files import display_name, read_lines

LABELS = ("0", "1", "2", "3", "4")  # very negative to very positive


class LabeledPhrase(NamedTuple):
    """The tokens below a node of a tree, and the node's label."""

    tokens: list[str]
    label: str
    is_root: bool  # the whole sentence


class LabeledTree(NamedTuple):
    """A sentence, and every phrase in it."""

    tokens: list[str]
    label: str
    phrases: list[LabeledPhrase]  # of all nodes, words too; the root is the first, each node before those below it
    line: int  # in its file, from 1


def read_trees(path: str | Path) -> list[LabeledTree]:
    """The trees of a file, plain or packed; blank lines are passed over."""
    name = display_name(path)
    trees = [
        parse_tree(line, f"{name}, line {number}", number)
        for number, line in enumerate(read_lines(path), start=1)
        if line.strip(" ")
    ]
    if not trees:
        raise InputError(f"{name}: holds no trees; expected one in each line, such as (3 (2 It) (4 works))")
    return trees


class _Node:
    """A node that is being read."""

    def __init__(self, label: str, start: int, order: int) -> None:
        self.label, self.start, self.order = label, start, order
        self.has_nodes = self.has_token = False


# Not \s: a token may hold a no-break space.
_PIECES = re.compile(r"(?P<open>\( *(?P<label>[^() ]*))|(?P<close>\))|(?P<token>[^() ]+)")


def parse_tree(text: str, where: str, line: int = 1) -> LabeledTree:
    """One tree; what is wrong in it is told with `where` and its place in the text, counted from 1."""
    tokens: list[str] = []
    opened: list[_Node] = []
    closed: dict[int, LabeledPhrase] = {}  # by the order in which they were opened
    for piece in _PIECES.finditer(text):
        place = f"{where}, character {piece.start() + 1}"
        if not opened and (closed or piece["open"] is None):
            raise InputError(f"{place}: {piece[0]!r} stands {'behind' if closed else 'before'} the tree")
        if piece["open"]:
            if piece["label"] not in LABELS:
                raise InputError(f"{place}: a label, 0 to 4, is due behind the bracket, and here is {piece['label']!r}")
            if opened:
                opened[-1].has_nodes = True
            opened.append(_Node(piece["label"], len(tokens), len(opened) + len(closed)))
        elif piece["token"]:
            opened[-1].has_token = True
            tokens.append(piece[0])
            if len(tokens) > opened[-1].start + 1:
                raise InputError(f"{place}: the token {piece[0]!r} needs a node of its own, such as (2 {piece[0]})")
        else:
            node = opened.pop()
            if node.has_token == node.has_nodes:
                both = "both a token and" if node.has_token else "neither a token nor"
                raise InputError(f"{place}: the node that ends here has {both} further nodes below it")
            closed[node.order] = LabeledPhrase(tokens[node.start :], node.label, node.order == 0)
    if opened:
        raise InputError(
            f"{where}, character {len(text) + 1}: the line ends with {pluralize(len(opened), 'open bracket')}"
        )
    phrases = [closed[order] for order in range(len(closed))]
    return LabeledTree(tokens, phrases[0].label, phrases, line)
