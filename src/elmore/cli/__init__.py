"""The command line: one file for each verb, all thin. `elmore --help` does not import torch."""

from elmore.cli.app import main

__all__ = ["main"]
