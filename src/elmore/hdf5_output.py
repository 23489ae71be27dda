"""A new HDF5 file whose failures are heard.

Left to write by itself on a disk that is full, the HDF5 library loses datasets without a word, and then crashes the
process when the file is closed. So it writes through a file of ours that takes everything, keeps the first failure to
itself until the library has let go, and raises it then.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


class Hdf5Output:
    """A file being written, dataset by dataset."""

    def __init__(self, file: h5py.File, disk: "_DeferredErrorFile") -> None:
        self.file = file
        self._disk = disk
        self._creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        self._creation.set_obj_track_times(False)
        # There is nothing that a dataset would have to be filled with before all of it is written.
        self._creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        self._types: dict[np.dtype[Any], h5py.h5t.TypeID] = {}

    def add_numbered(self, number: int, data: NDArray[Any]) -> None:
        """As `add`, with a number for a name: for many small datasets, for which h5py itself would take longer."""
        if data.dtype not in self._types:
            self._types[data.dtype] = h5py.h5t.py_create(data.dtype, logical=True)
        shape = h5py.h5s.create_simple(data.shape)
        own = h5py.h5d.create(self.file.id, b"%d" % number, self._types[data.dtype], shape, self._creation)
        own.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(data))
        self.check()

    def add(self, name: str, data: NDArray[Any]) -> None:
        """Write a dataset; as soon as the disk takes no more, an error."""
        # Without times: the same data makes the same file.
        self.file.create_dataset(name, data=data, track_times=False)
        self.check()

    def check(self) -> None:
        """Raise what went wrong so far."""
        if self._disk.failure is not None:
            raise self._disk.failure


@contextmanager
def new_hdf5(path: Path, *, libver: tuple[str, str] | None = None) -> Iterator[Hdf5Output]:
    """Open a new file, and close it; after that it is on the disk, or an error says why not."""
    with _DeferredErrorFile(path) as disk:
        try:
            with h5py.File(disk, "w", libver=libver) as file:
                yield Hdf5Output(file, disk)
        finally:
            # It explains whatever the library may have to say about its consequences.
            if disk.failure is not None:
                raise disk.failure


class _DeferredErrorFile(io.RawIOBase):
    """A file on which no write ever fails, as far as the writer can tell."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self.failure: OSError | None = None

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while len(rest) and self.failure is None:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.failure = error
        return size

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        size = self._file.readinto(view)
        # What was never written is read as zeros.
        view[size:] = bytes(len(view) - size)
        return len(view)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def truncate(self, size: int | None = None, /) -> int:
        try:
            return self._file.truncate(size)
        except OSError as error:
            self.failure = self.failure or error
            return size or 0

    def close(self) -> None:
        self._file.close()
        super().close()
