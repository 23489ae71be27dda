"""What every kept result says of where and with what it was measured."""

import os
import platform
import subprocess
from pathlib import Path
from shutil import which
from typing import Any

import torch

from elmore import __version__

ROOT = Path(__file__).resolve().parents[1]


def circumstances() -> dict[str, Any]:
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    # A copy without its history, on a machine without git, can be measured too.
    known = subprocess.run(asked, check=False, capture_output=True, text=True).stdout.strip() if which("git") else ""
    return {
        "commit": known,
        "elmore": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
    }


def cpu_name() -> str:
    """The model of the CPU; empty where the system does not show it."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
