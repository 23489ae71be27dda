"""A journal of what is put on disk in which order: writes, syncs and renames under one folder.

After a power cut a file has what was in it when it was last synced, and a rename holds once its folder was synced. So a
file that is to be whole or not there must be synced as it is before it gets its name, and its folder afterwards.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from elmore.files import atomic_files


@dataclass
class Naming:
    """A file or folder that was given its name."""

    target: str  # relative to the folder that is watched
    unsynced: list[str]  # what of it would not have been on disk after a power cut
    neighbours_unsynced: list[str]  # files beside it of which that is true: of those that it speaks of, none may be
    written_in_place: bool  # whether something had been written under that name, where half of it could be met
    held: bool = False  # whether its folder was synced afterwards


@dataclass
class Journal:
    """What happened, in order; names that begin with a dot are nobody's claim."""

    folder: Path
    there_before: set[Path] = field(default_factory=set)
    namings: list[Naming] = field(default_factory=list)
    _synced: dict[int, str] = field(default_factory=dict)
    _listed: dict[Path, set[str]] = field(default_factory=dict)  # the names in a folder that outlast a power cut

    @property
    def targets(self) -> list[str]:
        return [naming.target for naming in self.namings]

    def of(self, name: str) -> list[Naming]:
        return [naming for naming in self.namings if Path(naming.target).name == name]

    def sync(self, descriptor: int) -> None:
        number = os.fstat(descriptor).st_ino
        for path in [self.folder, *self.folder.rglob("*")]:
            if path.stat().st_ino == number:
                self._synced[number] = content(path)
                if path.is_dir():
                    self._listed[path] = {entry.name for entry in path.iterdir()}
                for naming in self.namings:
                    naming.held |= path.is_dir() and (self.folder / naming.target).parent == path

    def rename(self, source: Path, target: Path) -> None:
        if not target.is_relative_to(self.folder) or target.name.startswith("."):
            return
        # Hidden files beside it are temporary, and a lock holds nothing.
        beside = [p for p in target.parent.iterdir() if p.is_file() and p.name[0] != "." and "lock" not in p.name]
        whole = [source, *source.rglob("*")] if source.is_dir() else [source]
        self.namings.append(
            Naming(
                str(target.relative_to(self.folder)),
                unsynced=[path.name for path in whole if not self._is_synced(path)],
                neighbours_unsynced=[p.name for p in beside if p not in (source, target) and not self._is_synced(p)],
                written_in_place=target.exists() and target not in self.there_before,
            )
        )
        self.there_before.add(target)

    def lost_folders(self) -> list[str]:
        """Folders in which something got a name, and which would not be there themselves after a power cut."""
        folders = {folder for target in self.targets for folder in (self.folder / target).parents}
        inside = [folder for folder in folders if folder != self.folder and folder.is_relative_to(self.folder)]
        return [folder.name for folder in inside if folder.name not in self._listed.get(folder.parent, ())]

    def _is_synced(self, path: Path) -> bool:
        return self._synced.get(path.stat().st_ino) == content(path)


def content(path: Path) -> str:
    """What tells one state of a file or a folder from another."""
    if path.is_dir():
        return str(sorted(entry.name for entry in path.iterdir()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def recorded(folder: Path) -> Iterator[Journal]:
    """Watch what happens under a folder in this process."""
    journal = Journal(folder.resolve(), there_before=set(folder.resolve().rglob("*")))
    fsync, rename, replace, exchange = os.fsync, os.rename, os.replace, atomic_files._exchange_at_once

    def noted_fsync(descriptor: int) -> None:
        fsync(descriptor)
        journal.sync(descriptor)

    def noted_rename(source: str | Path, target: str | Path, **options: int) -> None:
        journal.rename(Path(source), Path(target))
        rename(source, target, **options)

    def noted_replace(source: str | Path, target: str | Path, **options: int) -> None:
        journal.rename(Path(source), Path(target))
        replace(source, target, **options)

    def noted_exchange(first: Path, second: Path) -> bool:
        journal.rename(first, second)
        return exchange(first, second)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atomic_files, "_exchange_at_once", noted_exchange)
        patch.setattr(os, "fsync", noted_fsync)
        patch.setattr(os, "rename", noted_rename)
        patch.setattr(os, "replace", noted_replace)
        yield journal


def assert_durable(journal: Journal) -> None:
    """Whatever got a name was on disk by then, and so was the name afterwards."""
    assert journal.namings, "nothing was written"
    assert [(naming.target, naming.unsynced) for naming in journal.namings if naming.unsynced] == []
    assert [naming.target for naming in journal.namings if not naming.held] == []
    assert [naming.target for naming in journal.namings if naming.written_in_place] == []
    assert journal.lost_folders() == []
