"""The version. A separate file, so that building the package imports nothing else."""

__version__ = "0.1.0.dev0"
