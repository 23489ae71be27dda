import io
import os
import pickle
import random
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from elmore.errors import FormatError
from elmore.formats.storage import torch_files
from elmore.formats.storage.container import FileContainer
from elmore.formats.storage.torch_files import load_tensors

EITHER_LAYOUT = pytest.mark.parametrize("as_zip", [False, True], ids=["old layout", "zip"])

STATE = OrderedDict(weight=torch.arange(6.0).reshape(2, 3), bias=torch.tensor([1.0, -1.0]))


def saved(content: object, *, as_zip: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=as_zip)
    return buffer.getvalue()


@pytest.fixture
def load(tmp_path: Path) -> Callable[[bytes], dict[str, Tensor]]:
    """Read these bytes as a file called w.th."""

    def write_and_load(data: bytes) -> dict[str, Tensor]:
        (tmp_path / "w.th").write_bytes(data)
        return load_tensors(FileContainer({"w.th": tmp_path / "w.th"}), "w.th")

    return write_and_load


Load = Callable[[bytes], dict[str, Tensor]]


@EITHER_LAYOUT
def test_a_state_dict_is_read(load: Load, as_zip: bool) -> None:
    tensors = load(saved(STATE, as_zip=as_zip))
    assert tensors.keys() == STATE.keys()
    assert all(torch.equal(tensors[name], STATE[name]) for name in STATE)


@EITHER_LAYOUT
def test_parameters_are_read_as_plain_tensors(load: Load, as_zip: bool) -> None:
    tensors = load(saved(dict(nn.Linear(2, 2).named_parameters()), as_zip=as_zip))
    assert not any(tensor.requires_grad for tensor in tensors.values())


@EITHER_LAYOUT
def test_tensors_of_inner_dictionaries_get_dotted_names(load: Load, as_zip: bool) -> None:
    tensors = load(saved({"epoch": 3, "state_dict": {"lstm": STATE}}, as_zip=as_zip))
    assert tensors.keys() == {"state_dict.lstm.weight", "state_dict.lstm.bias"}


@EITHER_LAYOUT
def test_views_of_one_storage_are_read(load: Load, as_zip: bool) -> None:
    whole = torch.arange(8.0)
    assert load(saved({"a": whole[:4], "b": whole[4:]}, as_zip=as_zip))["b"].tolist() == [4, 5, 6, 7]


def test_a_dictionary_that_contains_itself_ends(load: Load) -> None:
    endless: dict[str, Any] = {"w": torch.ones(1)}
    endless["again"] = endless
    assert load(saved(endless, as_zip=False)).keys() == {"w"}


def test_a_file_saved_on_a_gpu_is_read_without_one(fixtures: Path) -> None:
    folder = fixtures / "elmoformanylangs" / "elmo_word_char"
    files = FileContainer({name: folder / name for name in ("encoder.pkl", "encoder_cuda_storage.pkl")})
    plain, tagged = load_tensors(files, "encoder.pkl"), load_tensors(files, "encoder_cuda_storage.pkl")
    assert plain.keys() == tagged.keys()
    assert all(torch.equal(plain[name], tagged[name]) for name in plain)


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
def test_torch_runs_nothing_of_a_file_even_where_the_look_through_sees_nothing(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_zip: bool
) -> None:
    """`weights_only` is the second guard: it must hold by itself."""
    monkeypatch.setattr(torch_files, "_NAMES", {*torch_files._NAMES, "posix mkdir", "nt mkdir"})
    attack = saved({"w": torch.ones(1), "more": Attack(tmp_path / "taken")}, as_zip=as_zip)
    with pytest.raises(FormatError, match="torch cannot read it"):
        load(attack)
    assert not (tmp_path / "taken").exists()


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
    with pytest.raises(FormatError, match="belong to no tensor"):
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
