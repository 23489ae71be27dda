"""The counted request for TF32: on while somebody uses it, restored by the last user."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest
import torch

from elmore.nn.devices import TF32


def is_on() -> bool:
    return torch.backends.cuda.matmul.allow_tf32


@pytest.fixture(params=[False, True])
def before(request: pytest.FixtureRequest) -> Iterator[bool]:
    """The setting of the user."""
    original = is_on()
    torch.backends.cuda.matmul.allow_tf32 = request.param
    yield request.param
    torch.backends.cuda.matmul.allow_tf32 = original


def test_rounding_restores_the_setting(before: bool) -> None:
    with TF32.rounding():
        assert is_on()
        with TF32.rounding():
            assert is_on()
        assert is_on()
    assert is_on() == before


def test_rounding_restores_the_setting_after_an_error(before: bool) -> None:
    with pytest.raises(KeyError), TF32.rounding():
        raise KeyError
    assert is_on() == before


def test_rounding_of_one_thread_outlasts_another(before: bool) -> None:
    entered, leave = Event(), Event()

    def first() -> None:
        with TF32.rounding():
            entered.set()
            assert leave.wait(60)

    thread = Thread(target=first)
    thread.start()
    assert entered.wait(60)
    with TF32.rounding():
        leave.set()
        thread.join(60)
        assert is_on()
    assert is_on() == before


def test_rounding_in_many_threads_restores_the_setting(before: bool) -> None:
    def request(_: int) -> bool:
        with TF32.rounding():
            return is_on()

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(request, range(2000)))
    assert is_on() == before


def test_number_of_requests_shows_rounding_by_other_threads(before: bool) -> None:
    with ThreadPoolExecutor(1) as other:
        undisturbed = TF32.number_of_requests()
        assert undisturbed is not None
        with TF32.rounding():
            assert TF32.number_of_requests() == 0
            # A user who allows TF32 for the whole process is not disturbed.
            assert other.submit(TF32.number_of_requests).result() == (undisturbed + 1 if before else None)
        assert TF32.number_of_requests() == other.submit(TF32.number_of_requests).result() == undisturbed + 1


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_rounding_restores_the_newer_setting_of_torch(precision: str) -> None:
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):
        pytest.skip("this version of torch has the older setting only")
    original = matmul.fp32_precision
    matmul.fp32_precision = precision
    try:
        with ThreadPoolExecutor(1) as other, TF32.rounding():
            assert matmul.fp32_precision == "tf32"
            disturbed = other.submit(TF32.number_of_requests).result() is None
            assert disturbed == (precision == "ieee")
        assert matmul.fp32_precision == precision
    finally:
        matmul.fp32_precision = original
