import os
import subprocess
import sys

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


def test_forked_with_torch_is_false_in_first_process() -> None:
    code = "import elmore, torch, sys; from elmore.forks import forked_with_torch; sys.exit(forked_with_torch())"
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0
