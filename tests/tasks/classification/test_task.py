"""The readers of classification."""

import pytest

from elmore.tasks.classification.task import ClassifyOptions, read_texts


@pytest.mark.parametrize(
    ("style", "tokens"),
    [
        ("auto", ["a", "well-known", "fact"]),
        ("moses", ["a", "well-known", "fact"]),
        ("ud", ["a", "well", "-", "known", "fact"]),
        ("plain", ["a", "well-known", "fact"]),
    ],
)
def test_read_texts_uses_token_style(style, tokens, tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text("a well-known fact\tx\n")
    [example] = read_texts([path], ClassifyOptions(token_style=style), to_train=True).examples
    assert example.tokens == tokens
