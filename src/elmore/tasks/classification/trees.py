"""Trees of the Stanford Sentiment Treebank: one per line, `(3 (2 It) (4 works))`, with a label for every phrase."""

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
    """A sentence and all of its phrases."""

    tokens: list[str]
    label: str
    phrases: list[LabeledPhrase]  # of all nodes, also single words, in preorder; the root is the first
    line: int  # in its file, from 1


def read_trees(path: str | Path) -> list[LabeledTree]:
    """The trees of a file, plain or compressed; blank lines are skipped."""
    name = display_name(path)
    trees = [
        parse_tree(line, f"{name}, line {number}", number)
        for number, line in enumerate(read_lines(path), start=1)
        if line.strip(" ")
    ]
    if not trees:
        raise InputError(f"{name}: contains no trees; expected one in each line, such as (3 (2 It) (4 works))")
    return trees


class _Node:
    """A node whose closing bracket was not read yet."""

    def __init__(self, label: str, start: int, order: int) -> None:
        self.label, self.start, self.order = label, start, order
        self.has_nodes = self.has_token = False


# Not \s: a token may contain a no-break space.
_PIECES = re.compile(r"(?P<open>\( *(?P<label>[^() ]*))|(?P<close>\))|(?P<token>[^() ]+)")


def parse_tree(text: str, where: str, line: int = 1) -> LabeledTree:
    """One tree. Errors give `where` and the character in the text, counted from 1."""
    tokens: list[str] = []
    open_nodes: list[_Node] = []
    phrases: dict[int, LabeledPhrase] = {}  # by the order of the opening brackets
    for piece in _PIECES.finditer(text):
        location = f"{where}, character {piece.start() + 1}"
        if not open_nodes and (phrases or piece["open"] is None):
            raise InputError(f"{location}: {piece[0]!r} is {'after' if phrases else 'before'} the tree")
        if piece["open"]:
            if piece["label"] not in LABELS:
                raise InputError(f"{location}: expected a label, 0 to 4, after the bracket; found {piece['label']!r}")
            if open_nodes:
                open_nodes[-1].has_nodes = True
            open_nodes.append(_Node(piece["label"], len(tokens), len(open_nodes) + len(phrases)))
        elif piece["token"]:
            open_nodes[-1].has_token = True
            tokens.append(piece[0])
            if len(tokens) > open_nodes[-1].start + 1:
                raise InputError(f"{location}: the token {piece[0]!r} needs a separate node, such as (2 {piece[0]})")
        else:
            node = open_nodes.pop()
            if node.has_token == node.has_nodes:
                content = "both a token and" if node.has_token else "neither a token nor"
                raise InputError(f"{location}: the node that ends here has {content} further nodes")
            phrases[node.order] = LabeledPhrase(tokens[node.start :], node.label, node.order == 0)
    if open_nodes:
        raise InputError(
            f"{where}, character {len(text) + 1}: the line ends with {pluralize(len(open_nodes), 'open bracket')}"
        )
    in_order = [phrases[order] for order in range(len(phrases))]
    return LabeledTree(tokens, in_order[0].label, in_order, line)
