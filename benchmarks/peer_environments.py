"""Environments of their own for the programs that Elmore is compared with, made when they are first needed."""

import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path

ENVIRONMENTS = Path(__file__).resolve().parents[1] / "build" / "peers"


def peer_python(name: str, packages: Sequence[str], *, alone: Sequence[str] = ()) -> Path:
    """An interpreter with these packages, and others `alone`, without what they say they depend on."""
    folder = ENVIRONMENTS / name
    python, done = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join([*packages, *alone])
    if done.exists() and done.read_text() == wanted:
        return python
    print(f"installing {', '.join([*packages, *alone])}", flush=True)
    venv.create(folder, with_pip=True, clear=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *packages], check=True)
    if alone:
        subprocess.run([*install, "--no-deps", *alone], check=True)
    done.write_text(wanted)
    return python
