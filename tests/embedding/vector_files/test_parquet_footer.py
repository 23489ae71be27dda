import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elmore.embedding.vector_files.parquet_footer import shift_offsets

MAGIC = b"PAR1"


def metadata_of(footer: bytes) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC))


@pytest.fixture
def footer() -> bytes:
    """A footer of two row groups with many kinds of values: statistics, encodings, sorting, key-value metadata."""
    output = pa.BufferOutputStream()
    table = pa.table({"number": [3, 1, 2, None], "text": ["a", "b", "b", None], "list": [[0.5], [1.5, 2.5], [], [1.0]]})
    sorting = [pq.SortingColumn(0, descending=True)]
    with pq.ParquetWriter(output, table.schema, compression="snappy", sorting_columns=sorting) as writer:
        writer.write_table(table, row_group_size=2)
        writer.add_key_value_metadata({"a": "b" * 200})
    content = output.getvalue().to_pybytes()
    size = int.from_bytes(content[-8:-4], "little")
    return content[-8 - size : -8]


def offsets_of(metadata: pq.FileMetaData) -> list[tuple[int | None, int]]:
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    return [(column.dictionary_page_offset, column.data_page_offset) for column in columns]


def described(metadata: pq.FileMetaData) -> dict[str, object]:
    """All but the offsets."""
    everything = metadata.to_dict()
    del everything["serialized_size"]
    for group in everything["row_groups"]:
        for column in group["columns"]:
            for name in ("dictionary_page_offset", "data_page_offset", "file_offset"):
                column.pop(name, None)
    return everything


@pytest.mark.parametrize("shift", [0, 1, 100, 2**20, 2**40])
def test_shift_offsets_adds_to_offsets_and_nothing_else(footer: bytes, shift: int) -> None:
    before, after = metadata_of(footer), metadata_of(shift_offsets(footer, shift))
    assert described(after) == described(before)
    assert after.metadata == before.metadata
    assert after.schema == before.schema
    assert after.row_group(1).sorting_columns == before.row_group(1).sorting_columns
    expected = [(dictionary and dictionary + shift, data + shift) for dictionary, data in offsets_of(before)]
    assert offsets_of(after) == expected
    assert any(dictionary for dictionary, _ in expected)


def test_shift_offsets_by_nothing_changes_no_byte(footer: bytes) -> None:
    assert shift_offsets(footer, 0) == footer


def test_shift_offsets_adds_to_the_offset_of_a_row_group() -> None:
    # A list of one struct in field 4, with 64-bit integers in the fields 5 (an offset) and 6 (a size), zigzag encoded.
    footer = bytes.fromhex("49 1c 56 08 16 0e 00 00")
    assert shift_offsets(footer, 100) == bytes.fromhex("49 1c 56 d001 16 0e 00 00")
    # An offset of 0 means that there is none.
    footer = bytes.fromhex("49 1c 56 00 16 0e 00 00")
    assert shift_offsets(footer, 100) == footer
