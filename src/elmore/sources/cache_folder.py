"""Where downloads are kept."""

import os
import sys
from pathlib import Path

from elmore.errors import InputError


def cache_folder() -> Path:
    """Where downloads are kept: $ELMORE_CACHE, else `elmore` where the system has its caches. It may not exist yet."""
    if chosen := os.environ.get("ELMORE_CACHE"):
        return Path(chosen).expanduser()
    # A relative XDG_CACHE_HOME is to be ignored, says the specification.
    if (shared := Path(os.environ.get("XDG_CACHE_HOME", ""))).is_absolute():
        return shared / "elmore"
    try:
        home = Path.home()
    except RuntimeError:
        raise InputError("there is no home folder to keep downloads in; set ELMORE_CACHE to a folder") from None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "elmore"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "elmore" / "Cache"
    return home / ".cache" / "elmore"
