"""Everything that works without torch, as one program: `python work_without_torch.py FOLDER RESULTS [FIXTURES]`.

Each step returns arrays, texts or numbers. The program writes for each step the result and whether torch is loaded.
`test_work_without_torch.py` runs the program with torch and without it, and compares.
"""

import io
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

TEXT = "He drew his bow and let the arrow fly. The actors took a bow.\n\nMe too, said Dr. Smith.\n"
SENTENCES: list[Any] = ["I took a bow.", [], ["pre", "tokenized", "words"], "Überall ist 東京."] * 3
FOLDER = Path(sys.argv[1])
FIXTURES = Path(sys.argv[3]) if len(sys.argv) > 3 else None
STEPS: list[Callable[[], Any]] = []


def step(function: Callable[[], Any]) -> Callable[[], Any]:
    STEPS.append(function)
    return function


def elmore(*arguments: object) -> tuple[Any, str, str]:
    """Run a command: exit code, standard output and error output."""
    from elmore.cli import main

    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    code: Any = None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
    out.flush()
    written = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    return code, written.replace(str(FOLDER), "FOLDER"), err.getvalue().replace(str(FOLDER), "FOLDER")


def digests(folder: Path) -> dict[str, str]:
    """The content of the files in a folder."""
    from hashlib import sha256

    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


def text_file() -> Path:
    path = FOLDER / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@step
def import_elmore() -> Any:
    import elmore

    return sorted({"numpy", "h5py", "click"} & set(sys.modules)), dir(elmore)


@step
def embedder_encode() -> Any:
    from elmore import Embedder

    model = Embedder.from_pretrained()
    options: list[dict[str, Any]] = [
        {},
        {"layers": "all"},
        {"layers": [0, 2], "dtype": "float16"},
        {"state": "carry", "batch_size": 2},
        {"batch_tokens": 5, "batch_size": 1},
        {"token_style": "penn"},
    ]
    return [model.encode(SENTENCES, **some) for some in options], repr(model), model._repr_html_(), model.fingerprint()


@step
def embedder_other_calls() -> Any:
    from elmore import Embedder

    model = Embedder.from_pretrained("tiny-random", device="auto")
    return (
        model.encode_sentences(SENTENCES, pool="max"),
        list(model.encode_iter(SENTENCES)),
        model.word_vector("He took a [bow] ."),
        model.similarity([[1.0, 2.0]], [[2.0, 1.0]]),
        model.split(TEXT),
        model.tokenize("Don't panic.").words,
        pickle.loads(pickle.dumps(model)).to("cpu").encode("a b"),
    )


@step
def embedder_every_compute() -> Any:
    from elmore import Embedder
    from elmore.engine.native_library import Precision, why_unavailable

    names: list[Any] = [one.name.lower() for one in Precision if why_unavailable(one) is None]
    return [Embedder.from_pretrained(compute=name).encode(SENTENCES, layers="all") for name in names]


@step
def numpy_engine() -> Any:
    from elmore import load
    from elmore.embedding.warm_start import compute_warm_start
    from elmore.engine import open_engine

    model = load("tiny-random")
    engine = open_engine(model.checkpoint, engine="numpy")
    warm = compute_warm_start(model, [["a", "b"]], text_name="a text")
    return engine.encode_words(model.word_indexer.index(["a", "b"])), warm.start.h, warm.start.c


@step
def embedder_save_pretrained() -> Any:
    from elmore import Embedder, load

    Embedder.from_pretrained().save_pretrained(FOLDER / "saved")
    return digests(FOLDER / "saved"), load(FOLDER / "saved").fingerprint(), repr(load(FOLDER / "saved"))


@step
def embed_file_and_open_vectors() -> Any:
    from elmore import embed_file, open_vectors

    found = []
    for name in ("v.npz", "v.h5", "v.parquet"):
        summary = embed_file(text_file(), FOLDER / name, model="tiny-random", layers="all")
        with open_vectors(FOLDER / name) as vectors:
            found.append([tuple(summary), *vectors])
    return found


@step
def scoring() -> Any:
    from elmore import perplexity, substitutes, surprisal
    from elmore.scoring import LanguageModelScorer

    predictor = LanguageModelScorer.from_pretrained()
    return (
        perplexity(TEXT, model=predictor),
        perplexity(TEXT, model=predictor, state="fixed"),
        [tuple(one) for one in surprisal(TEXT, model=predictor)],
        tuple(substitutes("He drew his [bow] .", model=predictor)),
    )


@step
def allennlp_elmo_embedder() -> Any:
    from elmore import load
    from elmore.compat import allennlp
    from elmore.compat.allennlp import DEFAULT_OPTIONS_FILE, ElmoEmbedder
    from elmore.model import save

    save(load("tiny-random"), FOLDER / "pair", format="hdf5")
    embedder = ElmoEmbedder(FOLDER / "pair" / "options.json", FOLDER / "pair" / "weights.hdf5")
    with text_file().open(encoding="utf-8") as lines:
        embedder.embed_file((line for line in lines if line.strip()), FOLDER / "allennlp.hdf5")
    embedder.elmo_bilm.reset_states()
    batch = [["I", "took"], [], ["a", "bow"]]
    return embedder.embed_batch(batch), embedder.embed_batch(batch), DEFAULT_OPTIONS_FILE, dir(allennlp)


@step
def command_embed() -> Any:
    from elmore import open_vectors

    ended = elmore("embed", text_file(), "-o", FOLDER / "command.npz", "--layers", "0,2", "--dtype", "float16")
    with open_vectors(FOLDER / "command.npz") as vectors:
        return ended, list(vectors), [vectors.words(number) for number in range(len(vectors))]


@step
def command_embed_allennlp_layout() -> Any:
    from elmore import open_vectors

    arguments = ("-m", "tiny-random", "--layout", "allennlp", "-q")
    (FOLDER / "lines.txt").write_text("I took a bow .\nMe too\n")
    ended = elmore("embed", FOLDER / "lines.txt", "-o", FOLDER / "command.hdf5", *arguments)
    with open_vectors(FOLDER / "command.hdf5") as vectors:
        return ended, list(vectors)


@step
def command_info() -> Any:
    return elmore("info"), elmore("info", "tiny-random", "--json")


@step
def command_info_system() -> Any:
    code, out, err = elmore("info", "--system")
    # The lines about torch and its devices differ.
    return code, [line for line in out.splitlines() if not line.startswith(("torch", "devices"))], err


@step
def command_convert() -> Any:
    vocabulary = FOLDER / "words.txt"
    vocabulary.write_text("<S>\n</S>\n<UNK>\nbow\narrow\n")
    ended = []
    for form in ("folder", "folder-int8", "hdf5", "token-embeddings"):
        target = FOLDER / f"converted-{form}{'.hdf5' if form == 'token-embeddings' else ''}"
        arguments = ["tiny-random", "-o", target, "--format", form]
        arguments += ["--vocabulary", vocabulary] if form == "token-embeddings" else []
        arguments += ["--warm", text_file()] if form == "folder" else []
        ended.append(elmore("convert", *arguments))
        if target.is_dir():
            ended.append(elmore("info", target)[1])
    return ended, elmore("convert", "elmore-en", "-o", FOLDER / "again", "--format", "folder-int8")


@step
def command_export() -> Any:
    return elmore("export", "tiny-random", "-o", FOLDER / "model.onnx", "-q"), (FOLDER / "model.onnx").read_bytes()


@step
def command_prepare() -> Any:
    ended = elmore("prepare", text_file(), "-o", FOLDER / "prepared", "--heldout", "0.3", "--workers", "1")
    return ended, sorted(digests(FOLDER / "prepared"))


@step
def commands_of_scoring() -> Any:
    return (
        elmore("perplexity", text_file()),
        elmore("surprisal", text_file(), "-q"),
        elmore("substitutes", "He drew his [bow] .", "--json"),
    )


@step
def command_completion_and_help() -> Any:
    from elmore.cli.app import COMMANDS

    return elmore("completion", "bash"), elmore("--version"), [elmore(command, "--help") for command in COMMANDS]


@step
def formats_of_other_programs() -> Any:
    if FIXTURES is None:
        return None
    from elmore import Embedder

    names = (
        "allennlp",
        "allennlp/simple_tagger_best.th",
        "bilm-tf-checkpoint",
        "elmoformanylangs/elmo_word_char",
        "nlpl/nlpl_like.zip",
    )
    return [Embedder.from_pretrained(FIXTURES / name).encode([["Some", "words"]], layers="all") for name in names]


def main() -> None:
    results = {}
    for function in STEPS:
        os.chdir(FOLDER)
        try:
            result = function()
        except Exception as error:  # noqa: BLE001  # the test compares and prints it
            result = repr(error)
        results[function.__name__] = (result, "torch" in sys.modules)
    Path(sys.argv[2]).write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    main()
