"""The variants of a recipe that a comparison trains, and the cells of its table: a variant, a share of data, a seed.

The paper's tables are lists of variants: table 2 varies which layers are mixed and how much the mix is held to an
average, table 3 where ELMo enters, and figure 1 how much data there is to learn from.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from elmore.errors import InputError
from elmore.recipe import apply_overrides
from elmore.tasks.core.config import TaskRecipe

WITHOUT, WITH = "without ELMo", "with ELMo"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A recipe with some fields changed."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)  # as in {"elmo.layers": "last"}
    baseline: str | None = WITHOUT  # the variant that it is measured against; None: it is a baseline itself
    fractions: tuple[float, ...] = ()  # of the training examples, beside the recipe's own


def paper_variants(
    *,
    layers: Sequence[int | str] = (),
    penalties: Sequence[float] = (),
    where: Sequence[str] = (),
    fractions: Sequence[float] = (),
) -> tuple[Variant, ...]:
    """With and without ELMo, with each of the `fractions` of the data, as in the paper's figure 1.

    `layers` and `penalties` add the rows of its table 2, `where` those of table 3; all else is as the recipe has it.
    A penalty, the paper's lambda, is one on learned weights, which only a mix of all layers has.

    >>> [variant.name for variant in paper_variants(layers=["all", "last"], penalties=[1, 0.001], where=["both"])][2:]
    ['layers=all lambda=1', 'layers=all lambda=0.001', 'layers=last', 'where=both']
    """
    shares = tuple(map(float, fractions))
    rows = [
        Variant(name=WITHOUT, changes={"elmo.where": "none"}, baseline=None, fractions=shares),
        Variant(name=WITH, fractions=shares),
    ]
    if penalties and layers and "all" not in layers:
        raise InputError("lambda is a penalty on learned weights, which only layers=all has; add all to the layers")
    for choice in layers or (["all"] if penalties else []):
        chosen = Variant(name=f"layers={choice}", changes={"elmo.layers": choice})
        if choice != "all" or not penalties:
            rows.append(chosen)
            continue
        rows += [
            Variant(name=f"{chosen.name} lambda={penalty:g}", changes={**chosen.changes, "elmo.penalty": penalty})
            for penalty in penalties
        ]
    rows += [Variant(name=f"where={place}", changes={"elmo.where": place}) for place in where]
    return tuple(rows)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training."""

    variant: str
    changes: Mapping[str, Any]  # of the variant
    fraction: float  # of the training examples
    seed: int
    recipe: TaskRecipe  # whole

    def __str__(self) -> str:
        share = f", {self.fraction:.3g} of the data" if self.fraction != 1 else ""
        return f"{self.variant}{share}, seed {self.seed}"

    @property
    def key(self) -> tuple[str, float, int]:
        return self.variant, self.fraction, self.seed

    @property
    def folder(self) -> str:
        """Where it is trained, below the comparison's folder.

        >>> Cell(variant="layers=all lambda=0.001", changes={}, fraction=1.0, seed=2, recipe=TaskRecipe()).folder
        'runs/layers-all-lambda-0.001/2'
        """
        share = f"-fraction-{self.fraction!r}" if self.fraction != 1 else ""
        return f"runs/{folder_name(self.variant)}{share}/{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that a comparison is to train, and what it is to tell of."""

    base: TaskRecipe
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]
    same: Mapping[str, str]  # of each variant, the first one that has the same recipe, which is trained for both

    def fractions(self, variant: Variant) -> tuple[float, ...]:
        """The shares of the data that a variant is trained on, the largest first."""
        return tuple(sorted({self.base.training.fraction, *variant.fractions}, reverse=True))


def make_plan(base: TaskRecipe, variants: Sequence[Variant], *, seeds: int | Sequence[int] = 3) -> Plan:
    """Every variant with every one of its fractions and every seed; of variants that are the same, the first."""
    numbers = tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError(f"seeds is {seeds!r}; it must be a number of seeds, at least 1, or several different seeds")
    _check(base, variants)
    recipes = {variant.name: apply_overrides(base, variant.changes) for variant in variants}
    first: dict[TaskRecipe, str] = {}
    same = {name: first.setdefault(recipe, name) for name, recipe in recipes.items()}
    plan = Plan(base=base, variants=tuple(variants), seeds=numbers, cells=(), same=same)
    cells: dict[tuple[str, float, int], Cell] = {}
    # Seed by seed, so that a first comparison of all variants stands early.
    for seed in numbers:
        for variant in variants:
            for share in plan.fractions(variant):
                name = same[variant.name]
                cell = Cell(
                    variant=name,
                    changes=next(one.changes for one in variants if one.name == name),
                    fraction=share,
                    seed=seed,
                    recipe=apply_overrides(recipes[name], {"training.seed": seed, "training.fraction": share}),
                )
                cells.setdefault(cell.key, cell)
    return replace(plan, cells=tuple(cells.values()))


def _check(base: TaskRecipe, variants: Sequence[Variant]) -> None:
    if not base.elmo.is_used:
        raise InputError("the recipe says elmo.where = none, and there would be nothing to compare; name a place")
    names = [variant.name for variant in variants]
    folders = [folder_name(name) for name in names]
    if len(set(folders)) < len(folders):
        raise InputError(f"variants need different names, and these are {', '.join(names)}")
    if len(variants) < 2:
        raise InputError("there is nothing to compare; give two variants or more")
    for variant in variants:
        if variant.baseline is not None and variant.baseline not in names:
            raise InputError(f"{variant.name}: its baseline {variant.baseline!r} is none of the variants")


def folder_name(text: str) -> str:
    """A name as a folder has it: small letters, digits and dots, with hyphens between.

    >>> folder_name("with ELMo")
    'with-elmo'
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "variant"
