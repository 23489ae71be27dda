"""What a prepared corpus says of itself, in manifest.json."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmore.errors import FormatError, NotFound, error_context
from elmore.fields import read_fields
from elmore.files.json_files import check_format, parse_json
from elmore.text.style import TokenizerConfig

FORMAT, VERSION = "elmore-corpus", 1
MANIFEST = "manifest.json"
_REMEDY = "prepare the corpus again"


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """What a file must be."""

    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class CorpusPart:
    """How much there is of a part, to train on or held out."""

    documents: int
    sentences: int
    tokens: int
    types: int  # that occur in it
    unknown_tokens: int
    unknown_share: float


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What the corpus is, what was left out of it or will be read changed and why, and its files."""

    format: str = FORMAT
    version: int = VERSION
    written_by: str
    text: TokenizerConfig
    parts: Mapping[str, CorpusPart]  # train and heldout
    types: int  # of both
    dropped: Mapping[str, Any] = field(default_factory=dict)
    changed: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Mapping[str, Any]
    seed: int
    heldout_share: float
    inputs: tuple[Mapping[str, Any], ...]
    files: Mapping[str, StoredFile]


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, or an error that says why it is no prepared corpus."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise NotFound(f"{folder}: no such folder; make a corpus with: elmore prepare TEXT -o {folder}")
    if not path.is_file():
        raise NotFound(f"{folder}: holds no {MANIFEST}, so it is no prepared corpus; make one with: elmore prepare")
    with error_context(path):
        values = parse_json(path.read_bytes(), remedy=_REMEDY)
        check_format(values, FORMAT, versions=[VERSION], remedy=_REMEDY)
        return read_fields(Manifest, values, error=FormatError)
