"""The benchmarks of embedding compare like with like: a sample stands for the whole, and a ratio for what was timed."""

import os
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import embed_cpu
import embed_cpu_figures
import embed_gpu
import embed_gpu_figures
import embed_growth
import pytest
import torch
from busy_core import BusyCore
from embed_gpu_parts import File, Numbered

from elmore import Embedder
from elmore.config import SMALL
from elmore.engine.engine import PackSize

SENTENCES = [["word"] * (1 + 7 * n % 40) for n in range(640)]


def test_a_sample_is_evenly_spaced_and_padded_as_the_whole() -> None:
    whole = embed_cpu.batched("batches", SENTENCES, 0)
    sampled = embed_cpu.batched("batches", SENTENCES, 5)
    assert sampled["batches, whole"] == [SENTENCES]
    for order in ("batches, file order", "batches, sorted"):
        assert [len(whole[order]), len(sampled[order])] == [20, 5]
        assert embed_cpu.padding(sampled[order]) == pytest.approx(embed_cpu.padding(whole[order]), rel=0.05)

    places = [whole["batches, sorted"].index(batch) for batch in sampled["batches, sorted"]]
    assert {later - earlier for earlier, later in pairwise(places)} == {4}


def test_programs_that_compute_something_else_are_not_compared() -> None:
    same = {"AllenNLP": 100.0, "Elmore, float32": 100.001, "Elmore, int8": 103.0, "MiniLM": 7.0}
    embed_cpu.check_agreement(same)
    with pytest.raises(SystemExit, match="do not compute the same"):
        embed_cpu.check_agreement({**same, "simple_elmo": 101.0})


def test_a_ratio_is_larger_where_elmore_is_faster() -> None:
    def took(milliseconds: float) -> dict[str, dict[str, float]]:
        return {"5 to 10": {"median": milliseconds}, "18 to 24": {"median": 4 * milliseconds}}

    line = {
        "batches": {
            "AllenNLP": {"tokens_per_second": 100.0},
            "simple_elmo": {"tokens_per_second": 400.0},
            "Elmore, int8": {"tokens_per_second": 2000.0},
        },
        "one_sentence": {"AllenNLP": took(30.0), "Elmore, int8": took(2.0)},
    }
    assert embed_cpu_figures.ratios(line, "batches", "Elmore, int8") == [20.0, 5.0]
    assert embed_cpu_figures.ratios(line, "one_sentence", "Elmore, int8") == [pytest.approx(15.0), None]


def test_a_busy_core_is_told_from_what_others_do() -> None:
    with BusyCore() as busy:
        while busy.processor_time() < 0.1:
            pass
        process = Path(f"/proc/{busy._process.pid}")
        assert len(os.sched_getaffinity(busy._process.pid)) == 1
    assert not process.exists()


def test_what_a_busy_core_leaves_is_told_round_by_round() -> None:
    def rates(*each_round: float) -> dict[str, Any]:
        return {"tokens_per_second": median(each_round), "each_round": each_round, "others": [0.0], "niced": [0.0]}

    who = "Elmore, int8"
    line = {"size": "small", "threads": 2, "batches": {who: rates(100, 200, 400)}}
    assert who not in embed_cpu_figures.busy_table([line])
    told = embed_cpu_figures.busy_table([{**line, "busy_core": {who: rates(50, 120, 200)}}])
    assert "| small, Elmore, int8 | 2 | 200 | 120 | 50% | 50% to 60% | 40% |" in told


def test_a_step_has_as_many_distinct_words_as_it_says() -> None:
    text = [[f"{word}-{n % 400}" for word in ("a", "b", "c")] for n in range(1000)]
    steps = embed_growth.of_distinct_words(text, embed_growth.argparse.Namespace(tokens=2_000))
    assert [step.value for step in steps] == [100, 300, 1_000]
    for step in steps:
        assert len({word for sentence in step.sentences for word in sentence}) == step.value
        assert sum(map(len, step.sentences)) == 2_001


def packed_embedder() -> Embedder:
    """An Embedder with the GPU engine, which runs in plain torch here."""
    return Embedder.from_pretrained("tiny-random", device="cpu", engine="gpu")


def test_numbered_words_have_the_vectors_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = packed_embedder()
    sentences = [[f"Word{n % 7}" for n in range(length)] for length in (3, 0, 9, 1, 20, 4)]
    expected = embedder.encode_tensors(sentences, dtype="float16")
    numbered = Numbered(embedder, sentences)
    for positions in (1000, 12, 1):
        monkeypatch.setattr(embedder.engine, "pack_size", PackSize(rows=4, tokens=positions))
        for one, other in zip(numbered.read(), expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3)
    assert len(numbered.read(tokens=4)) < len(sentences)


def test_the_parts_of_embedding_a_file_are_told_and_the_slowest_is_named(tmp_path: Path) -> None:
    found = File(packed_embedder(), [["I", "took", "a", "bow"], ["Me", "too"]], tmp_path).measure()
    assert found["tokens"] == 6
    rates = found["parts_tokens_per_second"]
    assert rates[found["slowest_part"]] == min(rates.values())


def test_text_is_cut_at_a_sentence_and_operations_are_counted() -> None:
    sentences = [["a", "b"], ["c"], ["d", "e"]]
    assert embed_gpu.first_tokens(sentences, 2) == sentences[:1]
    assert embed_gpu.first_tokens(sentences, 3) == sentences[:2]
    assert embed_gpu.first_tokens(sentences, 99) == sentences
    # Two directions of two layers: inputs and outputs of 128 to four gates of 1,024 cells, and these back to 128.
    assert embed_gpu.operations(SMALL) == 2 * 2 * 2 * (256 * 4096 + 1024 * 128)


def test_tables_of_a_gpu_show_the_newest_line_of_everything() -> None:
    line = {
        "part": "words",
        "size": "original",
        "compute": "bfloat16",
        "batch_invariant": False,
        "every_length": False,
        "tokens": 20_000_000,
        "seconds": [10.0, 8.0],
        "host_share": [0.5, 0.4],
        "tokens_per_second": 2_222_222,
        "lstm_tera_operations_per_second": 400.0,
        "gpu_gib": 60.3,
    }
    lines = [
        {"part": "measure_peaks", "peak_tera_operations_per_second": {"bfloat16": 800.0}},
        {**line, "tokens_per_second": 1},
        line,
        {**line, "batch_invariant": True, "tokens_per_second": 2_000_000},
        {**line, "size": "small", "words_known": {"tokens_per_second": 4_444_444, "seconds": [5.0, 4.0]}},
    ]
    told = embed_gpu_figures.report(embed_gpu_figures.latest(lines)).splitlines()[2:]
    share, both = "50 % of 800 | 50 % | 60 |", "2,000,000 to 2,500,000"
    assert told == [
        f"| original, bfloat16 | 20,000,000 | 2,222,000 | {both} | 1,500,000 | {share}",
        f"| original, bfloat16, batch-invariant | 20,000,000 | 2,000,000 | {both} | | {share}",
        f"| small, bfloat16 | 20,000,000 | 2,222,000 | {both} | 4,000,000 | {share}",
        "| small, bfloat16, every word seen before | 20,000,000 | 4,444,000 | 4,000,000 to 5,000,000 | | " + share,
    ]


def test_chosen_parts_are_measured_and_one_that_fails_takes_no_other_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("To be or not to be .\n" * 30)
    chosen = ["--parts", "every-length", "words", "float32", "--sizes", "original", "--batch-tokens", "50"]
    monkeypatch.setattr("sys.argv", ["embed_gpu.py", "--text", str(text), "--quick", "--device", "cpu", *chosen])
    rates = embed_gpu.Benchmark.rates
    left: list[int] = []

    def failing_once(self: embed_gpu.Benchmark, *given: Any) -> dict[str, Any]:
        left.append(len(self.models))
        if len(left) == 2:
            raise RuntimeError("CUDA error")
        return rates(self, *given)

    monkeypatch.setattr(embed_gpu.Benchmark, "rates", failing_once)
    embed_gpu.main()
    out = capsys.readouterr().out
    assert "FAILED: words original bfloat16 known_rounds=3: CUDA error" in out
    assert [row.split(" | ")[0] for row in out.splitlines() if row.startswith("| original")] == [
        "| original, float32, packs of 50",
        "| original, bfloat16, packs of 50, sentences of every length",
    ]
    assert "peaks" not in out
