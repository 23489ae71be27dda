"""Limits on the size of functions, time limits in tests, and the import layers in docs/architecture.md."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "elmore"
MAX_LINES, MAX_ARGUMENTS = 60, 8

# compat has the signatures of other programs, and a Triton kernel takes pointers, sizes and strides one by one.
UNLIMITED_ARGUMENTS = ("compat/", "triton_")
# Public functions whose options are keywords with defaults.
EXCEPTIONS = {
    "corpus/prepare.py:prepare",
    "embedding/embed_file.py:embed_file",
    "tasks/comparison/compare.py:compare",
    "text/sentence_reader.py:read_sentences",
}


class Function(NamedTuple):
    name: str  # folder/file.py:Class.function
    lines: int
    arguments: int


def functions(path: Path) -> Iterator[Function]:
    """Every function of a file, including inner functions."""
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


def test_functions_are_short_and_take_few_arguments():
    # In cli/ the options of a command are its arguments.
    files = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "cli"]
    found = [function for path in files for function in functions(path)]
    assert len(found) > 500  # the whole package was parsed
    long = {function.name for function in found if function.lines > MAX_LINES}
    wide = {
        function.name
        for function in found
        if function.arguments > MAX_ARGUMENTS and not any(name in function.name for name in UNLIMITED_ARGUMENTS)
    }
    assert long | wide == EXCEPTIONS


def test_programs_started_by_tests_have_time_limits():
    started, unlimited = 0, []
    for path in Path(__file__).parent.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func) == "subprocess.run" or node.func.attr == "communicate":
                started += 1
                if all(keyword.arg != "timeout" for keyword in node.keywords):
                    unlimited.append(f"{path.name}:{node.lineno}")
    assert started > 20  # all tests were parsed
    assert unlimited == []


def test_architecture_page_lists_checked_layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.search(r"^Import layers, highest first: (.+?)\.\n\n", page, re.DOTALL | re.MULTILINE)
    assert listed is not None
    assert re.findall(r"`(.+?)`", listed[1]) == layers
