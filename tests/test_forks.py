import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

PROGRAM = """
import os, sys
{before}
if os.fork() == 0:
    {after}
    from elmore.forks import forked_with_torch
    os._exit(forked_with_torch())
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("import elmore, torch", "pass", True),
        ("import elmore", "import torch", False),
        ("import elmore, torch", "if os.fork(): os._exit(os.waitstatus_to_exitcode(os.wait()[1]))", True),
    ],
    ids=["torch in parent", "torch in child alone", "child of child"],
)
def test_forked_with_torch_tells_whether_parent_had_torch(before: str, after: str, expected: bool) -> None:
    code = PROGRAM.format(before=before, after=after)
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=120, check=False)
    assert ended.returncode == expected


@pytest.mark.parametrize("module", ["torch", "json"])
def test_forked_with_torch_is_true_where_multiprocessing_forked_before_elmore_was_loaded(
    module: str, tmp_path: Path
) -> None:
    # The parent never loads Elmore.
    program = tmp_path / "program.py"
    program.write_text(f"""
import multiprocessing, sys, {module}
def work():
    import {module}
    from elmore.forks import forked_with_torch
    sys.exit(forked_with_torch())
process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
sys.exit(process.exitcode)
""")
    ended = subprocess.run([sys.executable, "-W", "ignore", str(program)], timeout=120, check=False)
    assert ended.returncode == (module == "torch")


def test_forked_with_torch_is_false_in_first_process() -> None:
    code = "import elmore, torch, sys; from elmore.forks import forked_with_torch; sys.exit(forked_with_torch())"
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0
