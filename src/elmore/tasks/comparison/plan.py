"""The plan of a comparison: variants of a recipe, and the training runs of each variant, data fraction and seed.

The tables of Peters et al., 2018, are lists of variants: table 2 varies the mixed layers and the penalty on the mix,
table 3 the positions of ELMo, and figure 1 the amount of training data.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from elmore.errors import InputError
from elmore.recipe import LARGEST_SEED, apply_overrides
from elmore.tasks.core.config import TaskRecipe

WITHOUT, WITH = "without ELMo", "with ELMo"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A recipe with some fields changed."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)  # as in {"elmo.layers": "last"}
    baseline: str | None = WITHOUT  # the variant to compare with; None: this variant is a baseline
    fractions: tuple[float, ...] = ()  # of the training examples, in addition to the recipe's fraction


def paper_variants(
    *,
    layers: Sequence[int | str] = (),
    penalties: Sequence[float] = (),
    where: Sequence[str] = (),
    fractions: Sequence[float] = (),
) -> tuple[Variant, ...]:
    """With and without ELMo, each with all `fractions` of the training data, as in the paper's figure 1.

    `layers` and `penalties` add the rows of its table 2, and `where` the rows of table 3. A penalty, the paper's
    lambda, applies to learned weights, which only a mix of all layers has.

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
        variant = Variant(name=f"layers={choice}", changes={"elmo.layers": choice})
        if choice != "all" or not penalties:
            rows.append(variant)
            continue
        rows += [
            Variant(name=f"{variant.name} lambda={penalty:g}", changes={**variant.changes, "elmo.penalty": penalty})
            for penalty in penalties
        ]
    rows += [Variant(name=f"where={position}", changes={"elmo.where": position}) for position in where]
    return tuple(rows)


@dataclass(frozen=True, kw_only=True)
class ComparisonRun:
    """One training run of a comparison."""

    variant: str
    changes: Mapping[str, Any]  # of the variant
    fraction: float  # of the training examples
    seed: int
    recipe: TaskRecipe  # with the variant's changes

    def __str__(self) -> str:
        share = f", {self.fraction:.3g} of the data" if self.fraction != 1 else ""
        return f"{self.variant}{share}, seed {self.seed}"

    @property
    def key(self) -> tuple[str, float, int]:
        return self.variant, self.fraction, self.seed

    @property
    def folder(self) -> str:
        """The run's folder, below the comparison's.

        >>> ComparisonRun(variant="lambda=0.001", changes={}, fraction=1.0, seed=2, recipe=TaskRecipe()).folder
        'runs/lambda-0.001/2'
        """
        share = f"-fraction-{self.fraction!r}" if self.fraction != 1 else ""
        return f"runs/{folder_name(self.variant)}{share}/{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All runs of a comparison."""

    base: TaskRecipe
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    runs: tuple[ComparisonRun, ...]
    duplicate_of: Mapping[str, str]  # by variant: the first variant with the same recipe, which is trained for both

    def fractions(self, variant: Variant) -> tuple[float, ...]:
        """The fractions of the data for a variant, the largest first."""
        return tuple(sorted({self.base.training.fraction, *variant.fractions}, reverse=True))


def make_plan(base: TaskRecipe, variants: Sequence[Variant], *, seeds: int | Sequence[int] = 3) -> Plan:
    """Every variant with each of its fractions and each seed. If variants are equal, only the first is trained.

    A number of `seeds` counts from the recipe's seed.
    """
    numbers = _seeds(base.training.seed, seeds)
    _check(base, variants)
    recipes = {variant.name: apply_overrides(base, variant.changes) for variant in variants}
    changes = {variant.name: variant.changes for variant in variants}
    first: dict[TaskRecipe, str] = {}
    duplicate_of = {name: first.setdefault(recipe, name) for name, recipe in recipes.items()}
    plan = Plan(base=base, variants=tuple(variants), seeds=numbers, runs=(), duplicate_of=duplicate_of)
    runs: dict[tuple[str, float, int], ComparisonRun] = {}
    # Seed by seed: a first comparison of all variants is available early.
    for seed in numbers:
        for variant in variants:
            for share in plan.fractions(variant):
                name = duplicate_of[variant.name]
                recipe = apply_overrides(recipes[name], {"training.seed": seed, "training.fraction": share})
                run = ComparisonRun(variant=name, changes=changes[name], fraction=share, seed=seed, recipe=recipe)
                runs.setdefault(run.key, run)
    return replace(plan, runs=tuple(runs.values()))


def _seeds(first: int, seeds: int | Sequence[int]) -> tuple[int, ...]:
    numbers = tuple(range(first, first + seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError(f"seeds is {seeds!r}; it must be a number of seeds, at least 1, or several different seeds")
    if max(numbers) > LARGEST_SEED:
        raise InputError(f"{seeds} seeds from {first} on exceed {LARGEST_SEED}; set a smaller training.seed")
    return numbers


def _check(base: TaskRecipe, variants: Sequence[Variant]) -> None:
    if not base.elmo.is_used:
        raise InputError("the recipe has elmo.where none: there is nothing to compare; set elmo.where to a position")
    names = [variant.name for variant in variants]
    folders = [folder_name(name) for name in names]
    if len(set(folders)) < len(folders):
        raise InputError(f"the names of variants must differ, but are {', '.join(names)}")
    if len(variants) < 2:
        raise InputError("a comparison needs two or more variants")
    for variant in variants:
        if variant.baseline is not None and variant.baseline not in names:
            raise InputError(f"{variant.name}: the baseline {variant.baseline!r} is not one of the variants")


def folder_name(text: str) -> str:
    """The name of a folder for a text: lower-case letters, digits, dots and hyphens.

    >>> folder_name("with ELMo")
    'with-elmo'
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "variant"
