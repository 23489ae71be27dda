"""How a pre-training run is run: as every run, and what it writes besides."""

from dataclasses import dataclass

from elmore.training.settings import RunSettings


@dataclass(frozen=True, kw_only=True)
class PretrainingSettings(RunSettings):
    """The settings of every run, and those of pre-training alone."""

    hdf5: bool = False  # also write options.json and weights.hdf5
