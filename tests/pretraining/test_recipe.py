"""A recipe is fitted to a corpus that is too small for it, and what was asked for by name is left alone."""

from dataclasses import replace

import pytest

from elmore.pretraining.recipe import Recipe, Training, fit_to_corpus

RECIPE = Recipe(training=Training(batch_size=128, window=20, negatives=8192))


def test_a_corpus_that_is_large_enough_changes_nothing():
    fitted = fit_to_corpus(RECIPE, tokens=128 * 20 + 1, vocabulary_size=2 * 8192)
    assert fitted == (RECIPE, ())


def test_a_vocabulary_too_small_for_the_negatives_gets_the_full_softmax():
    fitted = fit_to_corpus(RECIPE, tokens=9999, vocabulary_size=2 * 8192 - 1)
    assert fitted.recipe == replace(RECIPE, training=replace(RECIPE.training, negatives=0))
    (notice,) = fitted.notices
    assert "16,383 words" in notice
    assert "full softmax" in notice


def test_who_trains_the_full_softmax_anyway_is_told_nothing():
    full = replace(RECIPE, training=replace(RECIPE.training, negatives=0))
    assert fit_to_corpus(full, tokens=9999, vocabulary_size=24) == (full, ())


@pytest.mark.parametrize(("tokens", "processes", "rows"), [(2560, 1, 127), (100, 1, 4), (21, 1, 1), (141, 2, 6)])
def test_a_text_too_short_for_the_rows_is_read_in_fewer(tokens, processes, rows):
    fitted = fit_to_corpus(RECIPE, tokens=tokens, vocabulary_size=99_999, processes=processes)
    assert fitted.recipe == replace(RECIPE, training=replace(RECIPE.training, batch_size=rows))
    (notice,) = fitted.notices
    assert f"a corpus of {tokens:,} tokens is too short for 128 rows of 20; it is read in {rows}" == notice


def test_a_text_too_short_for_one_row_is_left_to_be_refused():
    assert fit_to_corpus(RECIPE, tokens=20, vocabulary_size=99_999) == (RECIPE, ())


def test_what_was_asked_for_by_name_is_left_alone():
    given = {"training.negatives", "training.batch_size"}
    assert fit_to_corpus(RECIPE, tokens=100, vocabulary_size=24, given=given) == (RECIPE, ())
