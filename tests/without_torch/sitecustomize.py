"""Python runs this module first if its folder is in PYTHONPATH. It makes torch look as if it were not installed."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class PathFinderWithoutTorch(PathFinder):
    """Finds no torch, like a Python without it: `find_spec` returns None, and importing raises ModuleNotFoundError."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if fullname.partition(".")[0] == "torch" else super().find_spec(fullname, path, target)


# Only as a process starts: pytest imports this file too, when it collects doctests.
if __name__ == "sitecustomize":
    sys.meta_path[sys.meta_path.index(PathFinder)] = PathFinderWithoutTorch
