"""Fixtures that every test may ask for."""

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, register_random, settings

from elmore import Embedder, load
from elmore.corpus.corpus import Corpus
from elmore.engine.threads import set_threads
from elmore.model import Model

# How long an example takes says how busy the machine is, and nothing of what is tested. The same code has the same
# examples every time, so that a failure is of what was changed; `--hypothesis-profile search` looks for others.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("elmore", PATIENT, derandomize=True)
settings.register_profile("search", PATIENT, derandomize=False)
settings.load_profile("elmore")


class TorchRandom:
    """torch's own random numbers, for hypothesis to seed before every example."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


TORCH_RANDOM = TorchRandom()  # hypothesis keeps no more than a weak reference
register_random(TORCH_RANDOM)

SHARED = Path(__file__).resolve().parents[2] / "shared"
NO_REFERENCE_DATA = "the folder `shared` with the reference data is not beside the repository"


def pytest_configure() -> None:
    """Let tests interrupt child processes. A shell ignores SIGINT in background jobs and their children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly when tests were left out for want of the reference data: green without them proves less."""
    without = [
        report for report in terminalreporter.stats.get("skipped", []) if NO_REFERENCE_DATA in str(report.longrepr)
    ]
    if without:
        terminalreporter.section("NO REFERENCE DATA", sep="!", red=True, bold=True)
        terminalreporter.line(
            f"{len(without)} tests did not run: {NO_REFERENCE_DATA} ({SHARED}). Nothing was compared with the vectors "
            "of the original programs."
        )


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the reference vectors and the data, beside the repository."""
    if not SHARED.is_dir():
        pytest.skip(NO_REFERENCE_DATA)
    return SHARED


@pytest.fixture(scope="session")
def fixtures(shared: Path) -> Path:
    """Reference vectors that the original programs made."""
    return shared / "fixtures"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A prepared corpus of made-up sentences to train on; tests do not change it."""
    from small_runs import small_corpus  # imports the training code, which most tests do not need

    return small_corpus(tmp_path_factory.mktemp("corpus") / "prepared")


@pytest.fixture(scope="session")
def tiny() -> Embedder:
    """A small model with random weights: no meaning, all the mechanics."""
    return Embedder.from_pretrained("tiny-random", device="cpu")


@pytest.fixture(scope="session")
def tiny_model() -> Model:
    return load("tiny-random")


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    """Whatever ran before."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def restored_log_level() -> Iterator[None]:
    """The option -q of a command that runs in this process raises the level."""
    logger = logging.getLogger("elmore")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def on_the_cpu() -> Iterator[None]:
    """Also where there is a GPU: tests that want one ask for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmore.nn.devices.default_device", lambda: "cpu")
        yield


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tiny models run faster on one thread, and parallel test processes do not slow each other down."""
    torch.set_num_threads(1)
    set_threads(1)
