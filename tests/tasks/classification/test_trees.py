"""Every phrase of a sentiment tree is found with its label, and a broken tree is told where it breaks."""

from collections import Counter

import pytest

from elmore.errors import InputError
from elmore.tasks.classification.trees import LabeledPhrase, parse_tree, read_trees


def test_a_tree_gives_its_sentence_and_every_phrase():
    tree = parse_tree("(3 (2 It) (4 (2 really) (3 works)))", "a tree", 7)
    assert (tree.tokens, tree.label, tree.line) == (["It", "really", "works"], "3", 7)
    assert tree.phrases == [
        LabeledPhrase(["It", "really", "works"], "3", is_root=True),
        LabeledPhrase(["It"], "2", is_root=False),
        LabeledPhrase(["really", "works"], "4", is_root=False),
        LabeledPhrase(["really"], "2", is_root=False),
        LabeledPhrase(["works"], "3", is_root=False),
    ]


def test_a_token_may_hold_a_no_break_space_and_one_token_is_a_tree():
    assert parse_tree("(2 8\u00a01/2)", "a tree").tokens == ["8\u00a01/2"]
    assert parse_tree("(2 (2 a\u2028) (2 -LRB-))", "a tree").tokens == ["a\u2028", "-LRB-"]


def test_a_deep_tree_is_read():
    assert len(parse_tree("(2 (2 a) " * 1500 + "(2 b)" + ")" * 1500, "a tree").phrases) == 3_001


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("It works", "character 1: 'It' is before the tree"),
        (")", r"character 1: '\)' is before the tree"),
        ("(2 a) (2 b)", r"character 7: '\(2' is after the tree"),
        ("(2 a))", r"character 6: '\)' is after the tree"),
        ("(2 (2 a) (2 b)", "character 15: the line ends with 1 open bracket"),
        ("(2 (2 a)(", "character 9: expected a label, 0 to 4, after the bracket"),
        ("(5 a)", "character 1: expected a label, 0 to 4, after the bracket"),
        ("(2 (x a) (2 b))", "character 4: expected a label, 0 to 4, after the bracket"),
        ("((2 a))", "character 1: expected a label, 0 to 4, after the bracket"),
        ("(2 a b)", r"character 6: the token 'b' needs a separate node, such as \(2 b\)"),
        ("(2 a (2 b))", "character 11: the node that ends here has both a token and further nodes"),
        ("(2 (2 b) a)", r"character 10: the token 'a' needs a separate node, such as \(2 a\)"),
        ("(2 (2 a) (2))", r"character 12: the node that ends here has neither a token nor further nodes"),
    ],
)
def test_a_broken_tree_is_told_by_its_place(tmp_path, text, told):
    path = tmp_path / "trees.txt"
    path.write_text(f"(2 fine)\n{text}\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"trees\.txt, line 2, {told}"):
        read_trees(path)


def test_a_file_without_trees_is_an_error(tmp_path):
    (tmp_path / "trees.txt").write_text("\n \n")
    with pytest.raises(InputError, match=r"trees\.txt: contains no trees"):
        read_trees(tmp_path / "trees.txt")


# Sentences, words, phrases and the labels of the roots, from the README of the task data.
@pytest.mark.parametrize(
    ("split", "sentences", "words", "phrases", "roots"),
    [
        ("train", 8_544, 163_563, 318_582, (1_092, 2_218, 1_624, 2_322, 1_288)),
        ("dev", 1_101, 21_274, 41_447, (139, 289, 229, 279, 165)),
        ("test", 2_210, 42_405, 82_600, (279, 633, 389, 510, 399)),
    ],
)
def test_the_sentiment_treebank_is_read_whole(shared, split, sentences, words, phrases, roots):
    trees = read_trees(shared / "data" / "tasks" / "sentiment" / f"sst-{split}.txt.xz")
    assert (len(trees), sum(len(tree.tokens) for tree in trees)) == (sentences, words)
    assert sum(len(tree.phrases) for tree in trees) == phrases
    assert tuple(count for _, count in sorted(Counter(tree.label for tree in trees).items())) == roots
    assert all(
        [phrase.is_root for phrase in tree.phrases] == [True] + [False] * (len(tree.phrases) - 1) for tree in trees
    )
