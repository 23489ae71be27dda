"""How fast Elmore embeds on one GPU: from lists of words in memory to vectors that stay there, and beside AllenNLP.

    python benchmarks/embed_gpu.py --text TEXT [--allennlp FOLDER] [--sizes original small] [--parts NAME ...]
    python benchmarks/embed_gpu.py --text TEXT --quick
    python benchmarks/embed_gpu.py --plot

TEXT has a sentence of tokens a line, plain or .xz; FOLDER holds the package `allennlp` as its wheel has it, of which
`embed_cpu_allennlp.py` takes the files that ELMo is written in. Models have random weights in the published shapes.

Every round reads all of the text through `Embedder.encode_tensors`, layers averaged, as float16: numbering, indexing
and encoding words, packing, the LSTM, and a tensor for each sentence. No word is known when a round begins; more rounds
follow in which all are. The clock stops when the GPU has nothing left to do. A first part of the text was read before,
so that kernels are compiled and graphs captured. Sentences of more than --longest words are left out, but for the part
"every-length".

Each part is kept as soon as it is measured, as a line of benchmarks/results/embed_gpu.jsonl. Parts for which there is
no time left (--limit) are left out, and told. --quick keeps nothing, reads next to nothing by tiny models, and runs on
a CPU too; --plot draws what is kept.
"""

import argparse
import gc
import json
import lzma
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice, takewhile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import embed_gpu_figures
import torch
from circumstances import circumstances
from embed_gpu_figures import PLOT, RESULTS
from embed_gpu_parts import File, Numbered, Peer, Sentences, peaks, single_sentences
from equality import SIZES, random_checkpoint

from elmore import Embedder
from elmore.config import ModelConfig
from elmore.defaults import ComputeName
from elmore.errors import ElmoreError
from elmore.model import Model
from elmore.sources.tiny_random import CONFIG as TINY

WARM_UP, SAMPLE = 3_000_000, 1_000_000  # tokens: read before the clock starts; of what would take too long on all
BATCH, BATCHES = 256, 12  # of AllenNLP
ROUNDS = 3
PARTS = (
    "peaks",
    "words",
    "numbers",
    "tf32",
    "allennlp",
    "batch-invariant",
    "float32",
    "file",
    "alone",
    "every-length",
)  # the ones that matter most first


class Clock(NamedTuple):
    """What a round took."""

    seconds: float
    host: float  # until everything was launched


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path)
    parser.add_argument("--allennlp", type=Path)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["original", "small"])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure; the order stays")
    parser.add_argument("--batch-tokens", type=int, help="positions of a pack; what suits the GPU, if not given")
    parser.add_argument("--longest", type=int, default=500)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds, after which no part begins")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--quick", action="store_true", help="little text, to see that it works")
    parser.add_argument("--plot", action="store_true", help=f"draw {PLOT.name} of what is kept, and measure nothing")
    arguments = parser.parse_args()
    if arguments.plot:
        embed_gpu_figures.plot(PLOT)
        return
    if arguments.text is None:
        parser.error("give --text FILE, with a sentence of tokens a line")
    Benchmark(arguments).run()


class Benchmark:
    """All parts, the ones that matter most first."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.began = time.perf_counter()
        self.arguments = arguments
        self.quick: bool = arguments.quick
        self.device = torch.device(arguments.device)
        every = list(read_text(arguments.text, 24 if self.quick else None))
        self.every = every
        self.sentences = [words for words in every if len(words) <= arguments.longest]
        # Millions of lists, which are walked through in vain by every collection of garbage.
        gc.collect()
        gc.freeze()
        self.lines: list[dict[str, Any]] = []
        self.configs: dict[str, ModelConfig] = {size: TINY if self.quick else SIZES[size] for size in SIZES}
        self.models: dict[str, Model] = {}
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        self.about = {"device": name, "longest": arguments.longest, **circumstances()}
        self.say(f"{len(every):,} sentences, {count(every):,} tokens, of which {count(self.sentences):,} are read")

    def run(self) -> None:
        for name in PARTS:
            if name in self.arguments.parts:
                self.run_part(name)
        print(embed_gpu_figures.report(self.lines))
        self.say("done")

    def run_part(self, name: str) -> None:
        if name == "peaks":
            self.part(self.measure_peaks)
        if name == "words":
            for size in self.arguments.sizes:
                self.part(self.words, size, "bfloat16", known_rounds=ROUNDS)
        if name == "numbers" and "small" in self.arguments.sizes:
            self.part(self.numbers, "small")
        if "original" not in self.arguments.sizes:
            return
        if name == "allennlp" and self.arguments.allennlp:
            self.part(self.allennlp, "original")
        options: dict[str, tuple[ComputeName, dict[str, Any]]] = {
            "tf32": ("tf32", {"rounds": 2}),
            "batch-invariant": ("bfloat16", {"batch_invariant": True, "rounds": 2}),
            "float32": ("float32", {"sample": True, "rounds": 2}),
            "every-length": ("bfloat16", {"every_length": True, "rounds": 1}),
        }
        if name in options:
            compute, given = options[name]
            self.part(self.words, "original", compute, **given)
        if name in ("file", "alone"):
            self.part({"file": self.file, "alone": self.alone}[name], "original")

    def say(self, text: str) -> None:
        print(f"[{time.perf_counter() - self.began:6.1f} s] {text}", flush=True)

    def part(self, measure: Callable[..., dict[str, Any]], *given: Any, **options: Any) -> None:
        """Measure something and keep it; a part that fails takes none of the others along."""
        name = " ".join([measure.__name__, *map(str, given), *(f"{key}={value}" for key, value in options.items())])
        if time.perf_counter() - self.began > self.arguments.limit:
            self.say(f"NO TIME LEFT: {name}")
            return
        line = None
        try:
            line = {"benchmark": "embed_gpu", "part": measure.__name__, **measure(*given, **options), **self.about}
        except (
            ElmoreError,
            RuntimeError,
            ImportError,
            OSError,
            AssertionError,
            ValueError,
            TypeError,
            KeyError,
        ) as error:
            self.say(f"FAILED: {name}: {error}")
            traceback.print_exc()
            # With what it has of graphs and prepared weights, so that the others find the GPU as they would without it.
            self.models.clear()
        # Past the except block, where nothing is held by the error any more.
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if line is None:
            return
        self.lines.append(line)
        if not self.quick:
            with self.arguments.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
        shown = {key: value for key, value in line.items() if key not in self.about and key != "benchmark"}
        self.say(json.dumps(shown))

    def embedder(self, size: str, compute: ComputeName, *, batch_invariant: bool = False) -> Embedder:
        if size not in self.models:
            config = self.configs[size]
            self.models[size] = Model(random_checkpoint(config))
        model = self.models[size]
        compute = compute if self.device.type == "cuda" else "float32"
        return Embedder(model, device=self.device, compute=compute, batch_invariant=batch_invariant, engine="gpu")

    def sync(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def rounds(self, read: Callable[[], Any], number: int) -> list[Clock]:
        """As many as there is time for, one at least."""
        clocks: list[Clock] = []
        while len(clocks) < number and (not clocks or time.perf_counter() - self.began < self.arguments.limit):
            self.sync()
            began = time.perf_counter()
            kept = read()
            launched = time.perf_counter() - began
            self.sync()
            clocks.append(Clock(time.perf_counter() - began, launched))
            del kept
        return clocks

    def measure_peaks(self) -> dict[str, Any]:
        return {"peak_tera_operations_per_second": peaks(self.device, 128 if self.quick else 8192)}

    def words(
        self,
        size: str,
        compute: ComputeName,
        *,
        sample: bool = False,
        batch_invariant: bool = False,
        every_length: bool = False,
        rounds: int = ROUNDS,
        known_rounds: int = 0,  # more of them, in which every word is known
    ) -> dict[str, Any]:
        embedder = self.embedder(size, compute, batch_invariant=batch_invariant)
        text = self.every if every_length else self.sentences
        if sample:
            text = first_tokens(text, SAMPLE)
        first = first_tokens(text, SAMPLE // 4 if sample else WARM_UP)

        def read(some: Sentences = text) -> list[torch.Tensor]:
            return embedder.encode_tensors(some, dtype="float16", batch_tokens=self.arguments.batch_tokens)

        def read_new(some: Sentences = text) -> list[torch.Tensor]:
            embedder.clear_words()
            return read(some)

        for _ in range(2):
            read_new(first)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        rates = self.rates(text, self.rounds(read_new, rounds), self.configs[size])
        found = {
            "size": size,
            "compute": compute,
            "batch_invariant": batch_invariant,
            "every_length": every_length,
            "batch_tokens": self.arguments.batch_tokens,
            "distinct_words": len(embedder._running.store),
            **rates,
        }
        if known_rounds:
            found["words_known"] = self.rates(text, self.rounds(read, known_rounds), self.configs[size])
        return found

    def rates(self, text: Sentences, clocks: Sequence[Clock], config: ModelConfig) -> dict[str, Any]:
        tokens, middle = count(text), median(clock.seconds for clock in clocks)
        positions = tokens + 2 * len(text)
        memory = torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else 0
        return {
            "tokens": tokens,
            "sentences": len(text),
            "seconds": [round(clock.seconds, 3) for clock in clocks],
            "host_share": [round(clock.host / clock.seconds, 2) for clock in clocks],
            "tokens_per_second": round(tokens / middle),
            "lstm_tera_operations_per_second": round(positions * operations(config) / middle / 1e12, 1),
            "gpu_gib": round(memory / 2**30, 1),
        }

    def numbers(self, size: str) -> dict[str, Any]:
        embedder = self.embedder(size, "bfloat16")
        numbered = Numbered(embedder, self.sentences)
        for _ in range(2):
            numbered.read(WARM_UP)
        clocks = self.rounds(numbered.read, ROUNDS)
        return {"size": size, "compute": "bfloat16", **self.rates(self.sentences, clocks, self.configs[size])}

    def allennlp(self, size: str) -> dict[str, Any]:
        sizes = (8, 2) if self.quick else (BATCH, BATCHES)
        with tempfile.TemporaryDirectory() as folder:
            self.embedder(size, "float32")
            peer = Peer(self.arguments.allennlp, self.models[size], Path(folder), self.device)
        batches = [self.sentences[at : at + sizes[0]] for at in range(0, sizes[0] * sizes[1], sizes[0])]
        first = self.embedder(size, "float32").encode_tensors(batches[0][:3], layers="average")
        # The first of all its batches: it carries its state from batch to batch.
        difference = max(float((a - b).abs().max()) for a, b in zip(peer.read(batches[0][:3]), first, strict=True))
        assert difference < 5e-2, f"AllenNLP's vectors are others, by {difference}"
        for batch in batches[:2]:
            peer.read(batch)
        whole = self.rounds(lambda: [peer.read(batch) for batch in batches], 2)
        ready = [peer.characters(batch) for batch in batches]
        module = self.rounds(lambda: [peer.module(characters) for characters in ready], 2)
        tokens = sum(map(count, batches))
        return {
            "size": size,
            "compute": "float32",
            "batch_size": sizes[0],
            "tokens": tokens,
            "largest_difference": difference,
            "seconds": [round(clock.seconds, 3) for clock in whole],
            "tokens_per_second": round(tokens / median(clock.seconds for clock in whole)),
            "module_tokens_per_second": round(tokens / median(clock.seconds for clock in module)),
            "allennlp": peer.version,
        }

    def file(self, size: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            file = File(self.embedder(size, "bfloat16"), first_tokens(self.sentences, SAMPLE), Path(folder))
            found = file.measure()
        return {"size": size, "compute": "bfloat16", "dtype": "float16", **found}

    def alone(self, size: str) -> dict[str, Any]:
        some = [words for words in self.sentences if 18 <= len(words) <= 24][: 3 if self.quick else 40]
        computes: list[ComputeName] = ["bfloat16", "float32"]
        found = {compute: single_sentences(self.embedder(size, compute), some) for compute in computes}
        return {"size": size, "words": "18 to 24", "milliseconds": found}


def read_text(path: Path, sentences: int | None) -> Iterator[list[str]]:
    text = (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8")
    with text as lines:
        yield from (words for line in islice(lines, sentences) if (words := line.split()))


def count(sentences: Sentences) -> int:
    return sum(map(len, sentences))


def first_tokens(sentences: Sentences, tokens: int) -> Sentences:
    before = accumulate(map(len, sentences), initial=0)
    return sentences[: sum(1 for _ in takewhile(lambda total: total < tokens, islice(before, len(sentences))))]


def operations(config: ModelConfig) -> int:
    """Of the LSTM for one position: a product is a multiplication and an addition."""
    inputs = 2 * config.vector_dim * 4 * config.cell_dim
    return 2 * config.num_directions * config.lstm_layers * (inputs + config.cell_dim * config.vector_dim)


if __name__ == "__main__":
    main()
