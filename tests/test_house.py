"""The house rules that a machine can see: functions fit on a screen, and take a handful of arguments.

No test waits for ever for a program that it started, and what the pages say of the tree is so.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "elmore"
MOST_LINES, MOST_ARGUMENTS = 60, 8

# Arguments that are not ours to choose: compat has the signatures of the code it stands in for, and a Triton kernel is
# handed pointers, sizes and strides one by one.
FOREIGN = ("compat/", "triton_")
# What else may be larger, each with its reason.
EXCEPTIONS = {
    "corpus/prepare.py:prepare": "a public door: its options are keywords, as those of the command are flags",
    "embedding/embedder.py:Embedder.encode": "a public door: sentences, and seven keywords with defaults",
    "tasks/comparison/compare.py:compare": "a public door: its options are keywords, as those of the command are flags",
    "text/sentence_reader.py:read_sentences": "a path, and eight keywords with defaults; most callers give two",
}


class Function(NamedTuple):
    name: str  # folder/file.py:Class.function
    lines: int
    arguments: int


def functions(path: Path) -> Iterator[Function]:
    """Every function of a file, those inside of others too."""
    waiting: list[tuple[str, ast.AST]] = [("", ast.parse(path.read_text(encoding="utf-8")))]
    while waiting:
        inside, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            name = f"{inside}{getattr(child, 'name', '')}"
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                given = child.args
                arguments = len(given.posonlyargs + given.args + given.kwonlyargs)
                where = f"{path.relative_to(PACKAGE).as_posix()}:{name}"
                yield Function(where, child.end_lineno - child.lineno + 1, arguments)
            waiting.append((f"{name}." if hasattr(child, "name") else inside, child))


def test_no_function_is_longer_than_a_screen_or_takes_more_than_eight_arguments():
    # In cli/ a command's options are its arguments.
    files = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "cli"]
    found = [one for path in files for one in functions(path)]
    long = {one.name for one in found if one.lines > MOST_LINES}
    wide = {
        one.name for one in found if one.arguments > MOST_ARGUMENTS and not any(name in one.name for name in FOREIGN)
    }
    assert len(found) > 500  # the whole package was looked through
    assert (long | wide) - EXCEPTIONS.keys() == set(), "make it smaller, or say in EXCEPTIONS why not"


def test_whatever_a_test_starts_it_waits_for_with_a_limit():
    started, waited_without = 0, []
    for path in Path(__file__).parent.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func) == "subprocess.run" or node.func.attr == "communicate":
                started += 1
                if all(keyword.arg != "timeout" for keyword in node.keywords):
                    waited_without.append(f"{path.name}:{node.lineno}")
    assert started > 20  # all tests were looked through
    assert waited_without == []


def test_the_page_of_the_architecture_has_the_layers_that_are_checked():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = re.search(r"^Import layers, highest first: (.+?)\.\n\n", page, re.DOTALL | re.MULTILINE)
    assert told is not None
    assert re.findall(r"`(.+?)`", told[1]) == contracts[0]["layers"]


def test_the_box_of_the_readme_names_every_part_of_the_package_and_no_other():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    box = page.partition("```text\nsrc/elmore/\n")[2].partition("\ntests/")[0]
    told = [line.split()[0].removesuffix("/") for line in box.splitlines()]
    parts = [path.name for path in PACKAGE.iterdir() if path.name not in ("__pycache__", "py.typed")]
    assert sorted(told) == sorted(parts)
