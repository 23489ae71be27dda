"""Messages about labels that the training data does not have. A model cannot predict such labels."""

from collections.abc import Collection, Iterable

from elmore.display import join_names, pluralize
from elmore.errors import InputError

MAX_SHOWN = 10  # labels in a message


def unseen_labels(labels: Iterable[str], known: Collection[str], noun: str) -> list[str]:
    """A notice about labels that are not in the training data; empty if there are none.

    `noun` names what has a label, such as "token".

    >>> unseen_labels(["B", "X", "Y", "X"], ["A", "B"], "token")
    ['3 tokens have labels that are not in the training data and count as wrong: X, Y']
    """
    unseen = [label for label in labels if label not in known]
    if not unseen:
        return []
    has_labels = "has a label that is" if len(unseen) == 1 else "have labels that are"
    counts = "counts" if len(unseen) == 1 else "count"
    names = join_names(sorted(set(unseen)), most=MAX_SHOWN)
    return [f"{pluralize(len(unseen), noun)} {has_labels} not in the training data and {counts} as wrong: {names}"]


def check_some_known(labels: Collection[str], known: Collection[str], location: str) -> None:
    """Raise InputError if there are labels and none of them is in the training data."""
    if labels and not set(labels) & set(known):
        raise InputError(
            f"{location}: no label of this data ({join_names(sorted(set(labels)), most=MAX_SHOWN)}) is in the training "
            f"data, which has {join_names(list(known), most=MAX_SHOWN)}"
        )
