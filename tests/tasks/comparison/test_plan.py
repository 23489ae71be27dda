import pytest

from elmore.errors import InputError
from elmore.recipe import LARGEST_SEED, apply_overrides
from elmore.tasks.comparison.plan import WITH, WITHOUT, Variant, make_plan, paper_variants
from elmore.tasks.core.config import TaskRecipe

BASE = TaskRecipe()  # ELMo at the input, all layers, lambda 0.001


def names(variants) -> list[str]:
    return [variant.name for variant in variants]


def test_the_rows_of_the_papers_tables_follow_those_with_and_without_elmo():
    variants = paper_variants(layers=["all", "last", 0], penalties=[1.0, 0.001], where=["input", "both"])
    assert names(variants) == [
        WITHOUT,
        WITH,
        "layers=all lambda=1",
        "layers=all lambda=0.001",
        "layers=last",
        "layers=0",
        "where=input",
        "where=both",
    ]
    assert variants[3].changes == {"elmo.layers": "all", "elmo.penalty": 0.001}
    assert variants[5].changes == {"elmo.layers": 0}
    assert names(paper_variants(penalties=[0.5]))[2:] == ["layers=all lambda=0.5"]
    assert names(paper_variants(layers=["all"]))[2:] == ["layers=all"]
    with pytest.raises(InputError, match="add all to the layers"):
        paper_variants(layers=["last"], penalties=[1.0])


def test_what_is_the_same_by_another_name_is_trained_once():
    plan = make_plan(BASE, paper_variants(where=["input", "both"]), seeds=2)
    assert plan.duplicate_of == {WITHOUT: WITHOUT, WITH: WITH, "where=input": WITH, "where=both": "where=both"}
    assert [run.key for run in plan.runs] == [
        (name, 1.0, seed) for seed in (1, 2) for name in (WITHOUT, WITH, "where=both")
    ]


def test_fractions_are_those_of_the_rows_with_and_without_and_the_recipes_own_is_among_them():
    plan = make_plan(BASE, paper_variants(where=["both"], fractions=[0.1]), seeds=[7])
    assert [run.key for run in plan.runs] == [
        (WITHOUT, 1.0, 7),
        (WITHOUT, 0.1, 7),
        (WITH, 1.0, 7),
        (WITH, 0.1, 7),
        ("where=both", 1.0, 7),
    ]
    recipe = plan.runs[1].recipe
    assert (recipe.elmo.where, recipe.training.fraction, recipe.training.seed) == ("none", 0.1, 7)
    assert len({run.folder for run in plan.runs}) == len(plan.runs)
    assert str(plan.runs[1]) == "without ELMo, 0.1 of the data, seed 7"


@pytest.mark.parametrize(
    ("base", "variants", "seeds", "complaint"),
    [
        (apply_overrides(BASE, {"elmo.where": "none"}), paper_variants(), 3, "nothing to compare"),
        (BASE, paper_variants()[:1], 3, "two or more variants"),
        (BASE, [*paper_variants(), Variant(name="With elmo")], 3, "names of variants must differ"),
        (BASE, [Variant(name=WITH), Variant(name="other")], 3, "the baseline 'without ELMo' is not one of"),
        (BASE, paper_variants(), 0, "at least 1"),
        (BASE, paper_variants(), [1, 1], "different seeds"),
        (BASE, paper_variants(layers=["first"]), 3, "layers is 'first'"),
        (BASE, paper_variants(fractions=[1.5]), 3, "training.fraction is 1.5"),
    ],
)
def test_what_cannot_be_compared_is_refused(base, variants, seeds, complaint):
    with pytest.raises(InputError, match=complaint):
        make_plan(base, variants, seeds=seeds)


def test_number_of_seeds_counts_from_seed_of_recipe():
    base = apply_overrides(BASE, {"training.seed": 7})
    assert make_plan(base, paper_variants(), seeds=3).seeds == (7, 8, 9)
    assert make_plan(base, paper_variants(), seeds=[1, 4]).seeds == (1, 4)
    with pytest.raises(InputError, match=r"set a smaller training\.seed"):
        make_plan(apply_overrides(BASE, {"training.seed": LARGEST_SEED}), paper_variants(), seeds=2)
