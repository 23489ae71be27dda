"""Embed files in one call: what `elmore embed` does, for Python."""

import warnings
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TypedDict, Unpack

from elmore.defaults import StateName
from elmore.embedding.embedder import Embedder
from elmore.embedding.encode_options import DtypeArgument
from elmore.embedding.job import EmbedJob, EmbedSummary, Layout
from elmore.embedding.layer_choice import LayersArgument
from elmore.embedding.vectors import AnyPath
from elmore.errors import InputWarning, count
from elmore.model import Model
from elmore.progress import progress_bar
from elmore.text.input_format import InputFormat
from elmore.text.inputs import find_inputs
from elmore.text.paragraphs import Paragraphs
from elmore.text.style import TokenizerName, TokenStyle
from elmore.text_files import DecodingErrors, total_bytes


class EmbedArguments(TypedDict, total=False):
    """The fields of `EmbedJob`, all but its sources; what each means stands there."""

    layers: LayersArgument
    dtype: DtypeArgument
    state: StateName
    batch_tokens: int | None
    batch_size: int | None
    input_format: InputFormat | None
    split: bool
    paragraphs: Paragraphs | None
    language: str | None
    tokenizer: TokenizerName | None
    token_style: TokenStyle
    errors: DecodingErrors
    shard: tuple[int, int] | None
    layout: Layout
    fresh: bool
    force: bool


def embed_file(
    source: AnyPath | Sequence[AnyPath],
    target: AnyPath,
    *,
    model: str | Path | Model | Embedder | Callable[[], Embedder] | None = None,
    show_progress_bar: bool | None = None,
    **options: Unpack[EmbedArguments],
) -> EmbedSummary:
    """Embed every word of a file, or of several, into a file of vectors that `open_vectors` reads.

    Several files, folders and patterns such as `"books/*.txt"` are read one after another, as one text. The end of the
    target's name chooses its kind: `.h5`, `.parquet` or `.npz`. Stopped half-way, even by `kill -9`, the same call goes
    on from where it was. The options are the fields of `EmbedJob`. Without a `model` it is `elmore-en`, on a GPU if
    there is one; for another device, or another number type to compute in, give an `Embedder`, or what makes one: that
    is called when all else has been checked.

    >>> import tempfile
    >>> from elmore import embed_file, open_vectors
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("I took a bow. Me too.")
    >>> embed_file(folder / "a.txt", folder / "vectors.npz", model="tiny-random", layers="top")
    EmbedSummary(sentences=2, words=8, resumed_after=0)
    >>> open_vectors(folder / "vectors.npz")[1].shape
    (3, 32)
    """
    given = [source] if isinstance(source, str | PathLike) else source
    inputs = find_inputs([fspath(each) for each in given])
    if inputs.dropped:
        passed_over = ", ".join(count(number, what) for what, number in inputs.dropped.items())
        warnings.warn(f"of what was named, some is passed over: {passed_over}", InputWarning, stacklevel=2)
    job = EmbedJob(sources=tuple(inputs.files), **options)
    # Before a model is loaded: a wrong file name should not cost minutes.
    job.check(Path(target))
    size = total_bytes(job.sources)
    with progress_bar("embedding", show=show_progress_bar, total_bytes=size) as progress:
        return job.run(_embedder(model), Path(target), progress=progress)


def _embedder(model: str | Path | Model | Embedder | Callable[[], Embedder] | None) -> Embedder:
    if isinstance(model, Embedder):
        return model
    if isinstance(model, Model):
        return Embedder(model)
    return model() if callable(model) else Embedder.from_pretrained(model)
