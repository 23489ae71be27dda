"""Recipes of pre-training are adapted to small corpora."""

from dataclasses import replace

import pytest

from elmore.pretraining.recipe import Recipe, Training, fit_to_corpus

RECIPE = Recipe(training=Training(batch_size=128, window=20, negatives=8192))


def test_fit_to_corpus_leaves_recipe_for_large_corpus():
    fitted = fit_to_corpus(RECIPE, tokens=128 * 20 + 1, vocabulary_size=2 * 8192)
    assert fitted == (RECIPE, ())


def test_fit_to_corpus_uses_full_softmax_for_small_vocabulary():
    fitted = fit_to_corpus(RECIPE, tokens=9999, vocabulary_size=2 * 8192 - 1)
    assert fitted.recipe == replace(RECIPE, training=replace(RECIPE.training, negatives=0))
    (notice,) = fitted.notices
    assert "16,383 words" in notice
    assert "full softmax" in notice


def test_fit_to_corpus_has_no_notice_for_full_softmax():
    full = replace(RECIPE, training=replace(RECIPE.training, negatives=0))
    assert fit_to_corpus(full, tokens=9999, vocabulary_size=24) == (full, ())


@pytest.mark.parametrize(("tokens", "processes", "rows"), [(2560, 1, 127), (100, 1, 4), (21, 1, 1), (141, 2, 6)])
def test_fit_to_corpus_reduces_rows_for_short_text(tokens, processes, rows):
    fitted = fit_to_corpus(RECIPE, tokens=tokens, vocabulary_size=99_999, processes=processes)
    assert fitted.recipe == replace(RECIPE, training=replace(RECIPE.training, batch_size=rows))
    (notice,) = fitted.notices
    assert f"the corpus of {tokens:,} tokens is too short for 128 rows of 20; training.batch_size is {rows}" == notice


def test_fit_to_corpus_leaves_text_too_short_for_a_row():
    assert fit_to_corpus(RECIPE, tokens=20, vocabulary_size=99_999) == (RECIPE, ())


def test_fit_to_corpus_leaves_fixed_fields():
    fixed = {"training.negatives", "training.batch_size"}
    assert fit_to_corpus(RECIPE, tokens=100, vocabulary_size=24, fixed=fixed) == (RECIPE, ())
