"""Engines and packed sentences for the tests of `elmore.engine`."""

from collections.abc import Iterator

import pytest

from elmore.engine.threads import set_threads


@pytest.fixture
def restored_threads() -> Iterator[None]:
    """The test may change the number of threads."""
    yield
    set_threads(1)
