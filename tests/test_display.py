import pytest

from elmore.display import join_names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b", "c", "d", "e"], "a, b, c, d, e"),
        (["a", "b", "c", "d", "e", "f", "g"], "a, b, c, d, e and 2 more"),
    ],
)
def test_join_names_counts_the_omitted_names(names: list[str], text: str) -> None:
    assert join_names(names) == text
