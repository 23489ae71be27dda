"""Every page a user copies from says what is true: its commands run, its Python runs, its paths are there.

A file that a page shows with `$ cat FILE` exists with that content; all else its own commands make, in order.
"""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

import elmore
from elmore.pretraining.recipe import Recipe
from elmore.recipe import apply_overrides, read_recipe
from elmore.tasks.core.config import TaskRecipe

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    "README.md",
    "docs/comparing.md",
    "docs/elmo.md",
    "docs/export.md",
    "docs/layers.md",
    "docs/migrating.md",
    "docs/migrating/allennlp.md",
    "docs/performance.md",
    "docs/pretraining.md",
    "docs/tasks.md",
    "docs/text.md",
    "docs/threads.md",
]
PAGES_WITHOUT_COMMANDS = [
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/NOTES.md",
    "benchmarks/README.md",
    "docs/architecture.md",
    "docs/glossary.md",
    "docs/own-task.md",
    "docs/results.md",
    "docs/tasks/classification.md",
    "docs/tasks/coref.md",
    "docs/tasks/ensembles.md",
    "docs/tasks/recipes.md",
    "docs/tasks/senses.md",
    "docs/tasks/speed.md",
    "docs/tasks/squad.md",
    "docs/tasks/srl.md",
    "docs/tasks/tagging.md",
    "docs/troubleshooting.md",
]
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LOOSELY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    kind: str
    content: str
    line: int


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in FENCED.finditer(text)]


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with what it should print."""
    return [tuple(part.split("\n", 1)) for part in re.split(r"^\$ ", block.content, flags=re.MULTILINE) if part]


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_python_do_what_the_page_says(page: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page):
        if block.kind == "console":
            for command, expected in commands(block):
                check_command(command, expected, where=f"{page}: {command}")
        elif block.kind == "python":
            check_python(block, names, page)


def check_command(command: str, expected: str, *, where: str) -> None:
    if command.startswith("cat "):
        Path(command.removeprefix("cat ")).write_text(expected)
    program = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        # On the CPU, wherever this runs: a command would say that it uses a GPU.
        env={**os.environ, "PATH": program, "COLUMNS": "80", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        timeout=120,
    )
    assert doctest.OutputChecker().check_output(expected, ended.stdout, LOOSELY), f"{where}\nprinted\n{ended.stdout}"


def check_python(block: Block, names: dict[str, object], page: str) -> None:
    examples = doctest.DocTestParser().get_doctest(block.content, names, page, page, block.line)
    assert examples.examples, f"{page}, line {block.line}: a block of Python without a single >>> is not run"
    complaints: list[str] = []
    runner = doctest.DocTestRunner(optionflags=LOOSELY)
    runner.run(examples, out=complaints.append, clear_globs=False)
    names.update(examples.globs)
    assert not complaints, "".join(complaints)


@pytest.mark.parametrize("page", [*PAGES, *PAGES_WITHOUT_COMMANDS])
def test_every_link_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    headings = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines()}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings, f"{page}: {target}"
        elif not target.startswith("http"):
            assert (ROOT / page).parent.joinpath(target.split("#")[0]).exists(), f"{page}: {target}"


def listed_modules() -> set[str]:
    """The names in the first column of the table of packages in docs/architecture.md."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("## Packages")[1].split("\n\n")[1]
    return {name for row in table.splitlines()[2:] for name in re.findall(r"`([\w/.]+)`", row.split("|")[1])}


def test_architecture_page_lists_each_package() -> None:
    package = ROOT / "src" / "elmore"
    present = {
        f"{path.name}/" if path.is_dir() else path.name
        for path in package.iterdir()
        if (path.is_dir() or path.suffix == ".py") and not path.name.startswith("_")
    }
    assert listed_modules() == present - {"version.py"}


def table_names(page: str, heading: str) -> set[str]:
    """The names in the first column of the table under a heading."""
    section = (ROOT / page).read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    return {name for row in section.splitlines() if row.startswith("| `") for name in re.findall(r"`(\w+)", row)[:1]}


@pytest.mark.parametrize("name", ["small", "tiny", "medium", "original"])
def test_pretraining_page_has_each_recipe_field_and_value(name: str) -> None:
    page = (ROOT / "docs" / "pretraining.md").read_text(encoding="utf-8")
    table = page.split("<!-- recipe fields -->\n\n")[1].split("\n\n<!-- end -->")[0]
    heading, _, *rows = [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in table.splitlines()]
    small, column = heading.index("small"), heading.index(name)
    values = {row[0]: row[column] or row[small] for row in rows}
    recipe = read_recipe(name, Recipe)
    assert list(values) == list(field_names(recipe))
    for field, value in values.items():
        if field not in {"training.epochs", "training.steps"}:  # one replaces the other
            assert apply_overrides(recipe, {field: value}) == recipe, f"{field} is not {value}"
    assert (float(values["training.epochs"]), int(values["training.steps"])) == (
        recipe.training.epochs,
        recipe.training.steps,
    )


def test_task_recipes_page_lists_each_field() -> None:
    page = (ROOT / "docs" / "tasks" / "recipes.md").read_text(encoding="utf-8")
    for section in ("words", "elmo", "training"):
        rows = page.split(f"## `[{section}]`\n")[1].split("\n## ")[0].splitlines()
        named = {name for row in rows if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])}
        assert named == {field.name for field in fields(getattr(TaskRecipe(), section))}, section


def field_names(values: object, prefix: str = "") -> Iterator[str]:
    """The dotted names of all fields of a recipe."""
    for field in fields(values):
        value = getattr(values, field.name)
        yield from field_names(value, f"{prefix}{field.name}.") if is_dataclass(value) else [f"{prefix}{field.name}"]


def test_troubleshooting_page_lists_each_error() -> None:
    family = {
        name
        for name, value in vars(elmore.errors).items()
        if isinstance(value, type) and issubclass(value, elmore.ElmoreError) and value is not elmore.ElmoreError
    }
    assert table_names("docs/troubleshooting.md", "Errors") == family


def test_troubleshooting_page_lists_each_environment_variable() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), ROOT / "setup.py"]
    read = {
        name
        for path in sources
        for name in re.findall(r"""environ[\w.]*[\[(]\s*["'](ELMORE_\w+)""", path.read_text(encoding="utf-8"))
    }
    # Internal: tests name another library with it.
    assert read - {"ELMORE_NATIVE_LIBRARY"} <= table_names("docs/troubleshooting.md", "Environment variables")
