import io
import math
import os
import pickle
import random
import re
import struct
import time
import tracemalloc
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from elmore.errors import FormatError
from elmore.formats.storage import torch_files
from elmore.formats.storage.container import FileContainer
from elmore.formats.storage.torch_files import Array, load_tensors
from reference.strategies import patiently

EITHER_LAYOUT = pytest.mark.parametrize("as_zip", [False, True], ids=["old layout", "zip"])

STATE = OrderedDict(weight=torch.arange(6.0).reshape(2, 3), bias=torch.tensor([1.0, -1.0]))


def saved(content: object, *, as_zip: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=as_zip)
    return buffer.getvalue()


def assert_same(arrays: Mapping[str, Array], tensors: Mapping[str, Tensor]) -> None:
    """Compare names, shapes, types and values; bfloat16 is float32 in NumPy."""
    assert arrays.keys() == tensors.keys()
    for name, tensor in tensors.items():
        expected = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().numpy()
        assert (arrays[name].shape, arrays[name].dtype) == (expected.shape, expected.dtype), name
        assert np.array_equal(arrays[name], expected), name


@pytest.fixture
def load(tmp_path: Path) -> Callable[[bytes], dict[str, Array]]:
    """Read these bytes as a file called w.th."""

    def write_and_load(data: bytes) -> dict[str, Array]:
        (tmp_path / "w.th").write_bytes(data)
        return load_tensors(FileContainer({"w.th": tmp_path / "w.th"}), "w.th")

    return write_and_load


Load = Callable[[bytes], dict[str, Array]]


@EITHER_LAYOUT
def test_load_tensors_reads_a_state_dict(load: Load, as_zip: bool) -> None:
    assert_same(load(saved(STATE, as_zip=as_zip)), STATE)


@EITHER_LAYOUT
def test_load_tensors_reads_parameters_as_arrays(load: Load, as_zip: bool) -> None:
    layer = nn.Linear(2, 2)
    assert_same(load(saved(dict(layer.named_parameters()), as_zip=as_zip)), layer.state_dict())


@EITHER_LAYOUT
def test_load_tensors_gives_nested_tensors_dotted_names(load: Load, as_zip: bool) -> None:
    tensors = load(saved({"epoch": 3, "state_dict": {"lstm": STATE}}, as_zip=as_zip))
    assert tensors.keys() == {"state_dict.lstm.weight", "state_dict.lstm.bias"}


@EITHER_LAYOUT
def test_load_tensors_skips_all_other_values(load: Load, as_zip: bool) -> None:
    others = {"loss": [0.5, -1e300], "size": torch.Size([2, 3]), "big": 2**70, 7: (None, True), "é\ud800": {"n": -1}}
    found = load(saved({**others, "w": torch.ones(2), "more": [torch.ones(3)]}, as_zip=as_zip))
    assert_same(found, {"w": torch.ones(2)})


@EITHER_LAYOUT
@pytest.mark.parametrize(
    "kind",
    [
        *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16),
        *(torch.int8, torch.uint8, torch.bool),
    ],
    ids=str,
)
def test_load_tensors_reads_every_kind_of_number(load: Load, kind: torch.dtype, as_zip: bool) -> None:
    tensor = (torch.randn(7, 5) * 40).to(kind)
    assert_same(load(saved({"w": tensor}, as_zip=as_zip)), {"w": tensor})


@EITHER_LAYOUT
def test_load_tensors_reads_offsets_and_strides(load: Load, as_zip: bool) -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    views = {
        "rows": whole[1:3],
        "columns": whole[:, 2:4],
        "transposed": whole.T,
        "every second": whole[::2, ::3],
        "diagonal": whole.diagonal(),
        "expanded within its storage": whole[:1].expand(2, 6),
        "one": whole[3, 5],
        "none": whole[:0],
        "none of many": torch.empty(3, 0, 2),
        "a strange stride": torch.as_strided(whole, (1, 2), (10**12, 1), 22),
    }
    assert_same(load(saved(views, as_zip=as_zip)), views)


@patiently
@given(
    shape=st.lists(st.integers(0, 3), max_size=4),
    order=st.randoms(use_true_random=False),
    start=st.integers(0, 2),
    as_zip=st.booleans(),
)
def test_load_tensors_reads_the_same_as_torch(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], order: random.Random, start: int, as_zip: bool
) -> None:
    tensor = torch.arange(200.0)[start : start + math.prod(shape)].reshape(shape)
    axes = order.sample(range(len(shape)), len(shape))
    content = {"view": tensor.permute(axes), "plain": tensor, "inner": {"view": tensor.permute(axes)}}
    path = tmp_path_factory.mktemp("torch") / "w.th"
    path.write_bytes(saved(content, as_zip=as_zip))
    expected = torch.load(path, weights_only=True)
    expected["inner.view"] = expected.pop("inner")["view"]
    assert_same(load_tensors(FileContainer({"w.th": path}), "w.th"), expected)


def test_load_tensors_ends_for_a_dictionary_that_contains_itself(load: Load) -> None:
    endless: dict[str, Any] = {"w": torch.ones(1)}
    endless["again"] = endless
    assert load(saved(endless, as_zip=False)).keys() == {"w"}


def test_load_tensors_reads_a_shared_dictionary_once(load: Load) -> None:
    """Each of these dictionaries is two values of the next one: all paths together would be 2 ** 60 names."""
    inner: dict[str, Any] = {"w": torch.ones(1)}
    for _ in range(60):
        inner = {"a": inner, "b": inner}
    assert len(load(saved(inner, as_zip=True))) == 1


def test_load_tensors_reads_a_file_saved_on_a_gpu(fixtures: Path) -> None:
    folder = fixtures / "elmoformanylangs" / "elmo_word_char"
    files = FileContainer({name: folder / name for name in ("encoder.pkl", "encoder_cuda_storage.pkl")})
    plain, tagged = load_tensors(files, "encoder.pkl"), load_tensors(files, "encoder_cuda_storage.pkl")
    assert plain.keys() == tagged.keys()
    assert all(np.array_equal(plain[name], tagged[name]) for name in plain)


# As Python 2 wrote it: strings of bytes, and an ordered dictionary as a list of pairs.
PYTHON_2 = (
    b"\x80\x02ccollections\nOrderedDict\n]](U\x01wctorch._utils\n_rebuild_tensor\n((U\x07storagectorch\nFloatStorage\n"
    b"U\x0294U\x03cpuK\x02NtQK\x00K\x02\x85K\x01\x85tRea\x85R."
)


def test_load_tensors_reads_what_python_2_wrote(load: Load) -> None:
    expected = {"w": torch.tensor([1.5, -2.0])}
    data = saved(expected, as_zip=False)
    start = [position for position in range(len(data)) if data.startswith(b"\x80\x02", position)]
    values = data[-16:]
    assert values == struct.pack("<qff", 2, 1.5, -2.0)
    assert_same(load(data[: start[3]] + PYTHON_2 + b"\x80\x02]U\x0294a." + values), expected)


class Attack:
    """Unpickled without care it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


@EITHER_LAYOUT
def test_a_file_that_wants_code_to_be_run_is_refused_in_a_plain_sentence(
    load: Load, tmp_path: Path, as_zip: bool
) -> None:
    attack = saved({"w": torch.ones(1), "more": Attack(tmp_path / "taken")}, as_zip=as_zip)
    with pytest.raises(FormatError, match=r"w.th: it holds (posix|nt)\.mkdir, not only tensors, and could not be read"):
        load(attack)
    assert not (tmp_path / "taken").exists()


@EITHER_LAYOUT
def test_load_tensors_calls_nothing_even_if_a_name_is_let_through(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_zip: bool
) -> None:
    """The list of names is the first guard. The second one must hold by itself: names are never looked up."""
    monkeypatch.setattr(torch_files, "_NAMES", {*torch_files._NAMES, "posix mkdir", "nt mkdir"})
    attack = saved({"w": torch.ones(1), "more": Attack(tmp_path / "taken")}, as_zip=as_zip)
    with pytest.raises(FormatError, match="cannot be read; the file is damaged"):
        load(attack)
    assert not (tmp_path / "taken").exists()


def with_pickle(pickled: bytes) -> bytes:
    """A zip file of torch with another pickle."""
    return repacked(saved(STATE, as_zip=True), lambda name, data: pickled if name.endswith("data.pkl") else data)


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x02(S'touch taken'\niposix\nsystem\n.",  # INST
        b"\x80\x02(cposix\nsystem\nX\x05\x00\x00\x00toucho.",  # OBJ
        b"\x80\x02\x8c\x05posix\x8c\x06system\x93.",  # STACK_GLOBAL
        b"\x80\x02\x82\x01.",  # EXT1
        b"\x80\x02P1\n.",  # PERSID
        b"\x80\x02c__builtin__\neval\n.",
        b"\x80\x02ctorch.storage\n_load_from_bytes\n.",
        b"\x80\x02ctorch\nFloatTensor\n.",
    ],
)
def test_load_tensors_rejects_other_instructions_and_names(load: Load, pickled: bytes) -> None:
    with pytest.raises(FormatError, match=r"it holds (the instruction [A-Z]|\w+\.).*save model\.state_dict\(\)"):
        load(with_pickle(pickled))


def tensor_pickle(offset: bytes, shape: bytes, strides: bytes) -> bytes:
    """A dictionary with one tensor of the storage of six numbers in `STATE`."""
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ"
    arguments = b"(" + storage + offset + shape + strides + b"t"
    return b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"Rs."


def test_load_tensors_reads_the_tensor_that_a_pickle_describes(load: Load) -> None:
    values = load(with_pickle(tensor_pickle(b"K\x01", b"K\x02K\x02\x86", b"K\x02K\x01\x86")))["w"]
    assert values.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (b"K\x01", b"K\x06\x85", b"K\x01\x85"),  # ends after the storage
        (b"K\x00", b"K\x07\x85", b"K\x00\x85"),  # more numbers than the storage has
        (b"K\x06", b"K\x01\x85", b"K\x01\x85"),
        (b"K\x00", b"K\x02\x85", b"K\x06\x85"),
        (b"J\xff\xff\xff\xff", b"K\x02\x85", b"K\x01\x85"),  # an offset of -1
        (b"K\x05", b"K\x02\x85", b"J\xff\xff\xff\xff\x85"),  # a stride of -1
        (b"K\x00", b"J\xff\xff\xff\xff\x85", b"K\x01\x85"),  # a length of -1
        (b"K\x00", b"K\x02\x85", b"K\x01K\x01\x86"),
        (b"K\x00", b"G?\xf0\x00\x00\x00\x00\x00\x00\x85", b"K\x01\x85"),  # a length of 1.0
        (b"K\x00", b"K\x02\x85", b"\x8a\x08" + b"\xff" * 7 + b"\x7f\x85"),  # a stride of 2 ** 63 - 1
        (b"K\x00", b"(" + b"K\x01" * 70 + b"t", b"(" + b"K\x01" * 70 + b"t"),  # 70 dimensions
        (b"K\x00", b"X\x01\x00\x00\x002", b"X\x01\x00\x00\x001"),  # strings
    ],
)
def test_load_tensors_rejects_a_tensor_outside_its_storage(
    load: Load, offset: bytes, shape: bytes, strides: bytes
) -> None:
    with pytest.raises(FormatError, match=r"w\.th: .*the file is damaged"):
        load(with_pickle(tensor_pickle(offset, shape, strides)))


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x02}K\x01\x85K\x02s.",  # a tuple as a key: computing the hash of a deep one overflows the stack
        b"\x80\x02}(K\x01u.",  # a key without a value
        b"\x80\x02K\x01K\x02K\x03s.",
        b"\x80\x02\x85.",
        b"\x80\x02t.",
        b"\x80\x02K\x01K\x02(\x86t.",
        b"\x80\x02h\x05.",
        b"\x80\x02}bR.",
        b"\x80\x02ccollections\nOrderedDict\nccollections\nOrderedDict\nR.",
        b"\x80\x02}",
        b"",
    ],
)
def test_load_tensors_rejects_a_pickle_that_makes_no_sense(load: Load, pickled: bytes) -> None:
    with pytest.raises(FormatError, match=r"w\.th: cannot be read; the file is damaged"):
        load(with_pickle(pickled))


def test_load_tensors_rejects_names_that_grow_without_end(load: Load) -> None:
    whole: dict[str, Any] = {}
    inner = whole
    for _ in range(200):
        inner["a" * 100] = inner = {}
    with pytest.raises(FormatError, match="longer than 1000 characters"):
        load(saved(whole, as_zip=True))


def long(number: int) -> bytes:
    """A pickled integer of any size."""
    encoded = pickle.encode_long(number)
    return b"\x8a" + bytes([len(encoded)]) + encoded


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


ONE_TENSOR = tensor_pickle(b"K\x00", b"K\x06\x85", b"K\x01\x85")
NAMES = b"".join(text(str(number)) + b"h\x01" for number in range(400))  # of the value in the memo
HOSTILE = {
    "keys of equal hashes": b"\x80\x02}(" + b"".join(long(i * (2**61 - 1)) + b"N" for i in range(1, 60_000)) + b"u.",
    "copies of one list of pairs": (
        b"\x80\x02ccollections\nOrderedDict\nq\x01]q\x02("
        + b"".join(text(str(number)) + b"N\x86" for number in range(60_000))
        + b"e"
        + b"h\x01h\x02\x85R" * 60_000
        + b"."
    ),
    "a long name for many tensors": (
        ONE_TENSOR.removesuffix(b"s.") + b"q\x01s" + text("a" * 999) + b"}(" + NAMES + b"us."
    ),
    "many tensors of one storage": ONE_TENSOR.removesuffix(b"s.") + b"q\x01s(" + NAMES + b"u.",
    "lengths whose product is huge": tensor_pickle(
        b"K\x00", b"(" + long(2**2000) * 30_000 + b"t", b"(" + long(2**2000) * 30_000 + b"t"
    ),
    "a length of many bytes": tensor_pickle(b"K\x00", long(2**2000) + b"\x85", b"K\x01\x85"),
    "a stride that is not a number": tensor_pickle(b"K\x00", b"K\x02\x85", b"G\x7f\xf8" + bytes(6) + b"\x85"),
    "a text of 4 GB": b"\x80\x02X\xff\xff\xff\xffa.",
    "an integer of 2 GB": b"\x80\x02\x8b\xff\xff\xff\x7fa.",
    "deeply nested tuples": b"\x80\x02N" + b"\x85" * 100_000 + b".",
    "deeply nested dictionaries": b"\x80\x02}" + b"K\x01}" * 50_000 + b"s" * 50_000 + b".",
    "too many instructions": b"\x80\x02}" + b"}" * 1_100_000 + b".",
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_load_tensors_rejects_hostile_pickle_in_bounded_time_and_memory(load: Load, attack: str) -> None:
    data = with_pickle(HOSTILE[attack])
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises(FormatError, match=r"^w\.th: "):
            load(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Tracing makes everything several times slower. Without the limits, the first attacks take minutes or gigabytes.
    assert time.process_time() - started < 30
    assert peak < 250_000_000


def test_load_tensors_rejects_a_length_beyond_an_old_file(load: Load) -> None:
    data = saved(STATE, as_zip=False)
    position = data.index(b"}q") if b"}q" in data else len(data) // 2
    with pytest.raises(FormatError, match=r"^w\.th: cannot be read"):
        load(data[:position] + b"X\xff\xff\xff\xff")


def test_load_tensors_reads_weights_that_are_tied_many_times(load: Load) -> None:
    weight = torch.arange(6.0)
    arrays = load(saved({str(number): weight for number in range(60)}, as_zip=True))
    assert len(arrays) == 60


@pytest.mark.parametrize("archive", ["two members at one place", "a member larger than the file"])
def test_load_tensors_rejects_archive_whose_members_overlap(load: Load, archive: str) -> None:
    data = bytearray(saved(STATE, as_zip=True))
    directory = data.index(b"PK\x01\x02")
    entries = [match.start() for match in re.finditer(rb"PK\x01\x02", data[directory:])]
    first, second = (directory + start for start in entries[:2])
    if archive == "two members at one place":
        data[second + 42 : second + 46] = data[first + 42 : first + 46]  # the offset of the member
    else:
        data[first + 20 : first + 28] = struct.pack("<II", 2**31, 2**31)  # its compressed and its plain size
    with pytest.raises(FormatError, match=r"^w\.th: "):
        load(bytes(data))


def test_load_tensors_rejects_another_protocol(load: Load) -> None:
    buffer = io.BytesIO()
    torch.save(STATE, buffer, pickle_protocol=4)
    with pytest.raises(FormatError, match="its pickle has protocol 4; torch"):
        load(buffer.getvalue())


def test_load_tensors_rejects_a_view_of_a_storage(load: Load) -> None:
    """PyTorch 0.4 and earlier could write one: part of another storage, which nothing has needed since."""
    pickled = tensor_pickle(b"K\x00", b"K\x02\x85", b"K\x01\x85")
    with pytest.raises(FormatError, match="in an unknown way"):
        load(with_pickle(pickled.replace(b"K\x06tQ", b"K\x06(X\x01\x00\x00\x001K\x00K\x02ttQ")))


def test_load_tensors_rejects_values_that_end_early(load: Load) -> None:
    with pytest.raises(FormatError, match=r"w\.th: its values end early; the file is cut short"):
        load(saved(STATE, as_zip=False)[:-4])


def test_load_tensors_rejects_a_big_endian_archive(load: Load) -> None:
    data = repacked(saved(STATE, as_zip=True), lambda name, data: b"big" if name.endswith("byteorder") else data)
    with pytest.raises(FormatError, match="big-endian"):
        load(data)


def test_load_tensors_rejects_a_big_endian_file(load: Load) -> None:
    data = saved(STATE, as_zip=False)
    assert data.count(b"little_endianq\x02\x88") == 1
    with pytest.raises(FormatError, match="big-endian"):
        load(data.replace(b"little_endianq\x02\x88", b"little_endianq\x02\x89"))


def test_a_plain_pickle_is_no_torch_file(load: Load, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"not a file that torch.save wrote"):
        load(pickle.dumps(Attack(tmp_path / "taken")))
    assert not (tmp_path / "taken").exists()


@EITHER_LAYOUT
def test_a_whole_module_is_refused_with_advice(load: Load, as_zip: bool) -> None:
    with pytest.raises(FormatError, match=r"torch\.nn\.modules\.linear\.Linear.*save model\.state_dict\(\)"):
        load(saved(nn.Linear(2, 2), as_zip=as_zip))


def test_a_torchscript_program_is_refused_by_name(load: Load) -> None:
    buffer = io.BytesIO(saved(STATE, as_zip=True))
    with zipfile.ZipFile(buffer, "a") as archive:  # torch.load knows such programs by this member
        archive.writestr(f"{archive.namelist()[0].partition('/')[0]}/constants.pkl", b"")
    with pytest.raises(FormatError, match="TorchScript"):
        load(buffer.getvalue())


@EITHER_LAYOUT
def test_a_file_of_something_else_than_a_dictionary_is_refused(load: Load, as_zip: bool) -> None:
    with pytest.raises(FormatError, match=r"w\.th: it holds a Tensor where a dictionary"):
        load(saved(torch.ones(3), as_zip=as_zip))


def repacked(data: bytes, change: Callable[[str, bytes], bytes], **options: Any) -> bytes:
    """The zip archive with changed members and right checksums."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", **options) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return buffer.getvalue()


def test_a_compressed_archive_is_refused_before_it_can_swell(load: Load) -> None:
    bomb = repacked(
        saved({"w": torch.zeros(10**6)}, as_zip=True), lambda _, data: data, compression=zipfile.ZIP_DEFLATED
    )
    with pytest.raises(FormatError, match="compressed"):
        load(bomb)


@pytest.mark.parametrize("claimed", [2000, 10, 2**30, -5])
@EITHER_LAYOUT
def test_a_tensor_that_claims_another_size_than_it_has_is_an_error(load: Load, claimed: int, as_zip: bool) -> None:
    """Some versions of torch believe such a claim, and let the tensor reach into foreign memory."""
    true, false = b"M" + struct.pack("<H", 1000), b"J" + struct.pack("<i", claimed)

    def lie(name: str, data: bytes) -> bytes:
        assert data.count(true) == (2 if name.endswith("data.pkl") or not name else 0)
        return data.replace(true, false)

    data = saved({"w": torch.arange(1000.0)}, as_zip=as_zip)
    with pytest.raises(FormatError, match="damaged"):
        load(repacked(data, lie) if as_zip else lie("", data))


def test_values_that_belong_to_no_tensor_are_an_error(load: Load) -> None:
    """Else a file whose list of values is damaged would give tensors of whatever was in memory."""
    with pytest.raises(FormatError, match="more values than its tensors"):
        load(saved(STATE, as_zip=False) + bytes(8))


def test_a_flipped_value_in_an_archive_is_found_by_its_checksum(load: Load) -> None:
    data = bytearray(saved({"w": torch.full((100,), 7.0)}, as_zip=True))
    data[data.index(struct.pack("<f", 7.0) * 20) + 3] ^= 1
    with pytest.raises(FormatError, match="does not match its checksum"):
        load(bytes(data))


@EITHER_LAYOUT
def test_whatever_is_cut_or_flipped_the_result_is_tensors_or_our_error(load: Load, as_zip: bool) -> None:
    data = saved(STATE, as_zip=as_zip)
    errors = []
    for seed in range(600):
        chance = random.Random(seed)
        damaged = bytearray(data if chance.random() < 0.8 else data[: chance.randrange(len(data))])
        for _ in range(chance.randint(0 if len(damaged) < len(data) else 1, 3)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            load(bytes(damaged))
        except FormatError as error:
            errors.append(str(error))
    assert len(errors) > 200
    assert all(error.startswith("w.th: ") for error in errors)
