"""Any model that loads can be trained on, with its softmax or with a fresh one."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from elmore import Model, load
from elmore.config import CharacterConfig, ModelConfig, tensor_shapes
from elmore.engine import open_engine
from elmore.errors import InputError, InputWarning
from elmore.formats import Checkpoint, ModelCard
from elmore.model import save
from elmore.pretraining.initial_model import MAX_FROZEN_STEPS, from_model, with_word_table
from elmore.pretraining.pretrain import PretrainingFinished
from elmore.scoring.scorer import Softmax
from elmore.text.vocabulary import Vocabulary
from elmore.training.events import Evaluated, Progressed
from small_runs import assert_same_weights, losses, of_kind, small_corpus, small_recipe, small_run


@pytest.fixture(scope="module")
def domain(tmp_path_factory, corpus):
    """Other sentences, with the vocabulary of the first corpus."""
    folder = tmp_path_factory.mktemp("domain") / "prepared"
    return small_corpus(folder, seed=2, documents=10, vocabulary=corpus.path / "vocabulary.txt")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, corpus):
    """The folder of a model that has learnt a little."""
    recipe = small_recipe(**{"training.steps": 60, "training.batch_size": 16, "training.learning_rate": 0.03})
    folder = tmp_path_factory.mktemp("runs") / "trained"
    return list(small_run(corpus, folder, recipe, checkpoint_every=100, hdf5=True))[-1]


def recipe(**changes):
    return small_recipe(**{"training.steps": 8, "training.learning_rate": 0.01, **changes})


def test_a_model_with_the_corpus_s_vocabulary_keeps_its_softmax(domain, trained, tmp_path):
    run = small_run(domain, tmp_path / "run", recipe(), init=load(trained.model))
    events = list(run)
    before, *_, after = of_kind(Evaluated, events)
    assert (before.number, before.is_baseline) == (0, True)
    assert events[-1].baseline == before.evaluation
    facts = load(tmp_path / "run" / "model").card.extra["training"]
    assert facts["heldout_perplexity_before"]["each"] == before.evaluation.parts
    assert facts["heldout_perplexity"]["each"] == after.evaluation.parts
    assert facts["init"]["softmax"] == "its own"
    assert facts["init"]["fingerprint"] == load(trained.model).fingerprint()


def test_before_its_first_step_a_model_predicts_the_same_text_exactly_as_it_did(corpus, trained, tmp_path):
    for event in small_run(corpus, tmp_path / "run", recipe(), init=load(trained.model)):
        if isinstance(event, Evaluated):
            break
    assert event.is_baseline
    # Neither a weight nor a bias of its softmax is lost or rounded.
    assert event.evaluation == trained.heldout


def test_what_grows_out_of_a_model_keeps_its_license(domain, trained, tmp_path):
    model = load(trained.model)
    free = model.with_card(replace(model.card, license="CC0"))
    finished = list(small_run(domain, tmp_path / "run", recipe(), init=free))[-1]
    assert (load(trained.model).card.license, load(finished.model).card.license) == ("", "CC0")


def test_a_fresh_softmax_is_trained_first_on_the_frozen_trunk(domain, trained, tmp_path):
    init = load(trained.hdf5)
    assert init.softmax is None
    changes = recipe(**{"training.frozen_steps": 6})
    events = list(small_run(domain, tmp_path / "run", changes, init=init, checkpoint_every=1, keep=99))
    assert [(event.number, event.is_baseline) for event in of_kind(Evaluated, events)] == [(6, True), (14, False)]

    def moved(step: int) -> set[str]:
        tensors = load_file(tmp_path / "run" / "checkpoints" / f"step-{step:08d}" / "tensors.safetensors")
        own = init.checkpoint.float_arrays()
        return {name for name, array in own.items() if not np.array_equal(tensors[f"model.network.{name}"], array)}

    assert moved(6) == set()
    assert moved(7) == set(init.checkpoint.tensors)
    assert load(events[-1].model).card.extra["training"]["init"]["softmax"] == "fresh"


def test_without_a_number_the_softmax_has_an_epoch_to_itself(domain, trained, tmp_path):
    opened, started = islice(small_run(domain, tmp_path / "run", recipe(), init=load(trained.hdf5)), 2)
    assert opened.frozen_steps == (len(domain.train) - 1) // 20 < MAX_FROZEN_STEPS
    assert started.steps == opened.frozen_steps + 8


@pytest.mark.parametrize("stop_after", [3, 6, 9])
def test_fine_tuning_that_was_stopped_goes_on_with_the_same_losses(domain, trained, tmp_path, stop_after):
    wish = recipe(**{"training.frozen_steps": 6})
    init = load(trained.hdf5)
    *_, whole = small_run(domain, tmp_path / "whole", wish, init=init, checkpoint_every=2)
    for event in small_run(domain, tmp_path / "run", wish, init=init, checkpoint_every=2):
        if isinstance(event, Progressed) and event.step.number == stop_after:
            break
    *_, last = small_run(domain, tmp_path / "run", resume=True)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert (last.heldout, last.baseline) == (whole.heldout, whole.baseline)


def test_the_rate_rises_anew_when_everything_is_trained(domain, trained, tmp_path):
    run = small_run(domain, tmp_path / "run", recipe(**{"training.frozen_steps": 6}), init=load(trained.hdf5))
    rates = {event.step.number: event.step.learning_rate for event in of_kind(Progressed, run)}
    assert rates[1] == rates[7] == 0.005
    assert rates[2] == rates[8] == 0.01


def test_a_softmax_over_other_words_is_replaced_and_the_remedy_is_told(corpus, trained, tmp_path):
    other = small_corpus(tmp_path / "other", documents=3)
    model = load(trained.model)
    model = with_vocabulary(model, ["<S>", "</S>", "<UNK>", "cat"])
    with pytest.warns(InputWarning, match=r"another vocabulary.*elmore prepare --vocabulary FILE"):
        initial = from_model(model, recipe(), other)
    assert initial.init["softmax"] == "fresh"


def with_vocabulary(model, words):
    return Model(replace(model.checkpoint, vocabulary=Vocabulary(words)))


def test_a_model_of_words_needs_its_own_vocabulary(corpus, domain, tmp_path):
    wish = with_word_table(recipe(), corpus)
    *_, last = small_run(corpus, tmp_path / "run", wish)
    model = load(last.model)
    assert isinstance(list(small_run(domain, tmp_path / "tuned", recipe(), init=model))[-1], PretrainingFinished)
    model = with_vocabulary(model, [*corpus.vocabulary.words[:-1], "zebra"])
    with pytest.raises(InputError, match=r"has a word table for another vocabulary.*elmore prepare --vocabulary FILE"):
        from_model(model, recipe(), domain)


def test_a_model_of_code_points_keeps_its_alphabet_and_its_marks(domain, tmp_path):
    letters = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>", *"abcdefghijklmnopqrstuvwxyz."]
    config = ModelConfig(
        characters=CharacterConfig(
            alphabet="codepoints",
            n_characters=len(letters),
            max_characters=20,
            embedding_dim=4,
            filters=((1, 4), (2, 8)),
        ),
        vector_dim=8,
        cell_dim=16,
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<oov>",
    )
    tensors = {name: 0.1 * torch.randn(shape).numpy() for name, shape in tensor_shapes(config).items()}
    table = {letter: number for number, letter in enumerate(letters)}
    init = Model(Checkpoint(config=config, tensors=tensors, character_vocabulary=table, card=ModelCard(name="points")))
    *_, last = small_run(domain, tmp_path / "run", recipe(**{"training.frozen_steps": 2}), init=init)
    model = load(last.model)
    assert (model.config, model.checkpoint.character_vocabulary) == (config, table)
    assert model.vocabulary.words[:3] == ("<bos>", "<eos>", "<oov>")

    assert Softmax.of(model, open_engine(model.checkpoint, device="cpu")).class_id("never-seen") == 2


def test_the_result_can_be_written_in_every_format(domain, trained, tmp_path):
    *_, last = small_run(domain, tmp_path / "run", recipe(), init=load(trained.model), hdf5=True)
    assert_same_weights(load(last.hdf5), load(last.model))
    save(load(last.model), tmp_path / "small", format="folder-int8")
    assert load(tmp_path / "small").config == load(trained.model).config
