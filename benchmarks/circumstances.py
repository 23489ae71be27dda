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
        "cores": os.cpu_count(),
    }
