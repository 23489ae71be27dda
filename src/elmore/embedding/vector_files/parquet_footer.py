"""Add to the offsets in the footer of a Parquet file, for row groups that are appended to another file.

A footer is a Thrift struct in the compact protocol. The offsets change, all other bytes are copied.
"""

from typing import Any

from elmore.errors import FormatError

_OFFSET = "offset"
# The numbers of the fields that contain offsets. An offset of 0 means that there is none.
_COLUMN_META_DATA = {9: _OFFSET, 10: _OFFSET, 11: _OFFSET}  # of data pages, index pages and the dictionary
_COLUMN_CHUNK = {2: _OFFSET, 3: _COLUMN_META_DATA}
_ROW_GROUP = {1: _COLUMN_CHUNK, 5: _OFFSET}
_FILE_META_DATA = {4: _ROW_GROUP}

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)


def shift_offsets(footer: bytes, shift: int) -> bytes:
    """A footer whose row groups begin this number of bytes later."""
    mover = _Mover(footer, shift)
    mover.move_struct(_FILE_META_DATA)
    return bytes(mover.moved)


class _Mover:
    """Copies a struct with larger offsets."""

    def __init__(self, data: bytes, shift: int) -> None:
        self.moved = bytearray()
        self._data, self._shift = data, shift
        self._position = 0

    def move_struct(self, fields: Any) -> None:
        number = 0
        while header := self._copy(1)[0]:
            if header >> 4:
                number += header >> 4
            else:
                number = _signed(self._copy_varint())
            self._move_value(header & 15, fields.get(number) if isinstance(fields, dict) else None)

    def _move_value(self, kind: int, field: Any) -> None:
        if kind in _INTEGERS and field == _OFFSET:
            if (offset := _signed(self._read_varint())) > 0:
                offset += self._shift
            self.moved += _varint(offset << 1)
        elif kind in _INTEGERS:
            self._copy_varint()
        elif kind in (_BYTE, _DOUBLE):
            self._copy(1 if kind == _BYTE else 8)
        elif kind == _BINARY:
            self._copy(self._copy_varint())
        elif kind in (_LIST, _SET):
            header = self._copy(1)[0]
            count = header >> 4 if header >> 4 < 15 else self._copy_varint()
            for _ in range(count):
                self._move_element(header & 15, field)
        elif kind == _STRUCT:
            self.move_struct(field)
        elif kind not in (_TRUE, _FALSE):
            raise FormatError(f"pyarrow wrote a footer with values of the unknown kind {kind}")

    def _move_element(self, kind: int, field: Any) -> None:
        # The header of a field contains its truth value; in a list a truth value is a byte.
        self._move_value(_BYTE if kind in (_TRUE, _FALSE) else kind, field)

    def _copy(self, size: int) -> bytes:
        piece = self._data[self._position : self._position + size]
        self._position += size
        self.moved += piece
        return piece

    def _copy_varint(self) -> int:
        start = self._position
        value = self._read_varint()
        self.moved += self._data[start : self._position]
        return value

    def _read_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value


def _signed(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
