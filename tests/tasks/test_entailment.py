"""Entailment is learnt from a handful of pairs, and pairs are judged alike however they are given."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmore.errors import InputError
from elmore.tasks.core.events import TaskConfigured
from elmore.tasks.core.trained_model import load
from elmore.tasks.entailment import Esim, EsimDropout, JudgedPair
from elmore.tasks.modules.rnn import EncoderInputs
from elmore.training.log import read_log
from ragged_batches import ragged_mask, random_tensor
from small_tasks import PAIRS, train_small, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))["entailment"]


@pytest.fixture(scope="module")
def run(data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "entailment"
    train_small("entailment", folder, data)
    return folder


def test_the_handful_is_learnt_and_with_it_both_mixes(run):
    scores = [entry["heldout"] for entry in read_log(run / "log.jsonl") if "heldout" in entry]
    assert scores[0] < max(scores) == 100
    card = json.loads((run / "model" / "task.json").read_text())
    assert set(card["mixes"]) == {"input", "output"}


def test_pairs_without_consensus_are_counted_and_left_out(data, tmp_path):
    opened = train_small("entailment", tmp_path / "run", data, training__epochs=1)[0]
    assert isinstance(opened, TaskConfigured)
    assert (opened.train, opened.dev) == (4, 4)
    assert opened.notices[0] == "train: 1 pair with the label - left out: the annotators did not agree"


def test_accuracy_comes_with_a_table_by_class(run, data):
    score = load(run, device="cpu").evaluate(data)
    assert (score.metric, score.value, score.parts["contradiction.recall"]) == ("accuracy", 100, 100)
    assert "neutral" in score.table


def test_a_pair_is_judged_alike_alone_in_a_batch_and_as_json(run):
    model = load(run, device="cpu")
    texts = [f"{premise}\t{hypothesis}" for premise, hypothesis, _ in PAIRS] * 8
    together = model.predict(texts)
    for text, judged in zip(texts, together, strict=True):
        premise, hypothesis = text.split("\t")
        alone, as_json = model.predict([text])[0], json.dumps({"premise": premise, "hypothesis": hypothesis})
        assert isinstance(judged, JudgedPair)
        assert (judged.premise, judged.hypothesis, judged.label) == (premise, hypothesis, alone.label)
        assert judged.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert model.predict([as_json])[0] == alone
    assert [judged.label for judged in together[:4]] == [label for *_, label in PAIRS[:4]]
    assert sum(together[0].probabilities.values()) == pytest.approx(1)
    assert str(together[1]).startswith("contradiction\t")
    assert str(together[1]).endswith("\tA man plays a guitar.\tNobody plays.")


@pytest.mark.parametrize("pair", [PAIRS[0][:2], {"premise": "A man plays.", "hypothesis": "Nobody plays."}])
def test_a_pair_that_is_no_string_is_refused_by_its_number(pair, run):
    told = f"^text 2: the text is a {type(pair).__name__}, not a string; .* as a JSON string$"
    with pytest.raises(InputError, match=told):
        load(run, device="cpu").predict(["A man plays.\tNobody plays.", pair])


def test_the_sentences_are_told_apart_from_each_other(run):
    """One encoder reads both, yet which is the premise matters."""
    model = load(run, device="cpu")
    there, back = model.predict(["Two dogs sleep.\tThe dogs are old.", "The dogs are old.\tTwo dogs sleep."])
    assert there.probabilities != pytest.approx(back.probabilities, abs=1e-4)


def test_what_cannot_be_judged_is_named(run, tmp_path):
    model = load(run, device="cpu")
    with pytest.raises(InputError, match="text 2: there must be two sentences"):
        model.predict(["a\tb", "alone"])
    unseen = tmp_path / "unseen.tsv"
    unseen.write_text("a\tb\tperhaps\n")
    with pytest.raises(
        InputError, match=r"no label of this data \(perhaps\) is in the training data, which has contradiction,"
    ):
        model.evaluate(unseen)
    only = tmp_path / "only.tsv"
    only.write_text("a\tb\t-\n")
    with pytest.raises(InputError, match=r"only.tsv: no examples to score"):
        model.evaluate(only)


def test_raw_and_tokenised_sentences_have_the_same_tokens():
    """SNLI's raw text, and the tokens of its parses with blanks between them."""
    from elmore.tasks.inputs.tokenizer import StyledTokenizer

    tokenizer = StyledTokenizer("nltk")
    raw, tokenised = 'The dog doesn\'t "bark".', "The dog does n't `` bark '' ."
    assert tokenizer.tokens(raw).tokens == tokenizer.tokens(tokenised).tokens == tokenised.split(" ")


LENGTHS = ([4, 1, 0, 3], [2, 5, 3, 0])
NO_DROPOUT = EsimDropout(0.0, 0.0, 0.0)


def random_esim(**options: Any) -> Esim:
    torch.manual_seed(0)
    return Esim(5, 3, hidden=4, **options).double()


def sentences(seed: int, lengths: list[int], *, extra_dim: int = 0) -> EncoderInputs:
    """Random sentences. Padding has large values, which must not change the result."""
    mask = ragged_mask(lengths, places=6)
    extra = random_tensor(seed + 1, len(lengths), 6, extra_dim).masked_fill(~mask[..., None], 50) if extra_dim else None
    x = random_tensor(seed, len(lengths), 6, 5).masked_fill(~mask[..., None], 50)
    return EncoderInputs(x, mask, tuple(lengths), extra)


def paired(premises: EncoderInputs, hypotheses: EncoderInputs) -> EncoderInputs:
    """As the network reads them."""
    extra = (
        None if premises.extra is None or hypotheses.extra is None else torch.cat([premises.extra, hypotheses.extra])
    )
    x, mask = torch.cat([premises.x, hypotheses.x]), torch.cat([premises.mask, hypotheses.mask])
    return EncoderInputs(x, mask, (*premises.lengths, *hypotheses.lengths), extra)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores)
    return powers / powers.sum(axis=1, keepdims=True)


def linear(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()


def read(encoder: Any, x: np.ndarray) -> np.ndarray:
    """The biLSTMs, which have tests of their own, are taken as they are."""
    return encoder(torch.from_numpy(x)[None], [len(x)])[0].detach().numpy()


def plain(esim: Esim, given: list[tuple[np.ndarray, np.ndarray | None]]) -> np.ndarray:
    """One pair: the vectors (T, D) of each sentence, and those (T, E) beside them."""
    a, b = (
        read(esim.encoder, x) if extra is None else np.concatenate([read(esim.encoder, x), extra], axis=1)
        for x, extra in given
    )
    scores = a @ b.T
    pooled = []
    for v, other, own in ((a, b, scores), (b, a, scores.T)):
        seen = softmax(own) @ other if len(other) else np.zeros_like(v)
        m = np.maximum(linear(esim.projection.layers[0], np.concatenate([v, seen, v - seen, v * seen], axis=1)), 0)
        z = read(esim.composition, m) if len(m) else np.zeros((1, 8))
        pooled += [z.mean(axis=0), z.max(axis=0)]
    hidden = np.maximum(linear(esim.output.layers[0], np.concatenate(pooled)), 0)
    return linear(esim.output.output, hidden)


@pytest.mark.parametrize("extra_dim", [0, 2])
def test_a_pairs_logits_are_those_of_the_equations_whatever_its_batch(extra_dim: int) -> None:
    esim = random_esim(extra_dim=extra_dim).eval()
    premise, hypothesis = (sentences(10 * side, lengths, extra_dim=extra_dim) for side, lengths in enumerate(LENGTHS))
    found = esim(paired(premise, hypothesis)).detach()
    for row in range(4):
        given = [
            (
                one.x[row, : one.lengths[row]].numpy(),
                None if one.extra is None else one.extra[row, : one.lengths[row]].numpy(),
            )
            for one in (premise, hypothesis)
        ]
        np.testing.assert_allclose(found[row], plain(esim, given), rtol=0, atol=1e-10)


def test_its_sizes_are_the_papers() -> None:
    esim = Esim(300 + 1024, 3, extra_dim=1024)
    assert esim.encoder.layers[0].input_size == 1324
    assert esim.projection.layers[0].in_features == 6496
    assert Esim(300, 3).projection.layers[0].in_features == 2400
    assert esim.output.layers[0].in_features == 2400


@pytest.mark.parametrize("place", EsimDropout._fields)
def test_each_dropout_is_drawn_from_torchs_generator_and_in_training_alone(place: str) -> None:
    esim = random_esim(dropout=NO_DROPOUT._replace(**{place: 0.5}))
    pairs = paired(sentences(1, [3, 2]), sentences(2, [2, 4]))

    def logits(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return esim(pairs)

    assert torch.equal(logits(1), logits(1))
    assert not torch.equal(logits(1), logits(2))
    esim.eval()
    assert torch.equal(logits(1), logits(2))


def test_it_learns_a_handful_of_pairs() -> None:
    torch.manual_seed(5)
    pairs, gold = paired(sentences(3, [3, 2, 4]), sentences(4, [2, 2, 1])), torch.tensor([0, 2, 1])
    esim = Esim(5, 3, hidden=8, dropout=NO_DROPOUT).double()
    optimizer = torch.optim.Adam(esim.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(esim(pairs), gold)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 < losses[0]


def test_it_runs_under_autocast() -> None:
    esim = random_esim(extra_dim=2, dropout=NO_DROPOUT).float()
    pairs = paired(sentences(5, [4, 0], extra_dim=2), sentences(7, [2, 3], extra_dim=2))
    assert pairs.extra is not None
    pairs = pairs._replace(x=pairs.x.float(), extra=pairs.extra.float())
    expected = esim(pairs)
    with torch.autocast("cpu", torch.bfloat16):
        found = esim(pairs)
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.05)
    found.float().sum().backward()
    assert all(one.grad is not None and one.grad.isfinite().all() for one in esim.parameters())


def test_vectors_that_are_missing_or_of_another_size_are_refused() -> None:
    pair = paired(sentences(1, [2]), sentences(2, [2]))
    with pytest.raises(InputError, match="this network takes extra vectors of size 2"):
        random_esim(extra_dim=2)(pair)


def test_esim_without_padding_gives_the_same_logits(monkeypatch) -> None:
    esim = random_esim(extra_dim=2).eval()
    premise, hypothesis = (sentences(10 * side, lengths, extra_dim=2) for side, lengths in enumerate(LENGTHS))
    pairs = paired(premise, hypothesis)
    padded = esim(pairs)
    monkeypatch.setattr("elmore.tasks.entailment.MAX_PADDED_SCORES", 0)
    torch.testing.assert_close(esim(pairs), padded, rtol=0, atol=1e-12)


def test_esim_does_not_compute_scores_of_padding() -> None:
    """A premise of 5,000 tokens and a hypothesis of 3: the scores are 5,000 x 3 numbers, not 5,000 x 5,000."""
    esim = random_esim().eval()
    shapes = []
    esim.attention.similarity = lambda x, y: shapes.append((x.shape[1], y.shape[1])) or torch.bmm(x, y.transpose(1, 2))
    mask = ragged_mask([5000, 3])
    esim(EncoderInputs(torch.ones(2, 5000, 5, dtype=torch.float64), mask, (5000, 3)))
    assert shapes == [(5000, 3)]
