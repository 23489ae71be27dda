"""Whether this process was forked from one that had loaded torch. `import elmore` loads this file.

The child of a fork has its parent's record of torch's threads, but none of the threads: the first operation that torch
divides among several threads waits forever. `elmore.nn.devices` prevents that, and has to know of the fork.
"""

import os
import sys


class _Fork:
    """The state of this process; a child inherits it."""

    had_torch = False


def forked_with_torch() -> bool:
    """Whether torch was loaded before the fork that started this process, or a process above it."""
    return _Fork.had_torch


def _after_fork() -> None:
    _Fork.had_torch = _Fork.had_torch or "torch" in sys.modules


def _forked_by_multiprocessing() -> bool:
    # Not imported: in a process that multiprocessing started it is loaded.
    context, process = (sys.modules.get(f"multiprocessing.{name}") for name in ("context", "process"))
    if context is None or process is None or not hasattr(context, "ForkProcess"):
        return False
    return isinstance(process.current_process(), context.ForkProcess)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
# The parent may have used torch without Elmore. Then it is not known whether parent or child has loaded torch.
if _forked_by_multiprocessing():
    _after_fork()
