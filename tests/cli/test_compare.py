import os
import signal
import subprocess

import pytest

from small_comparison import OPTIONS, write_data
from small_runs import ENVIRONMENT, elmore_command


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


def words(data, folder, *more) -> list[str]:
    files = [word for name in ("train", "dev", "test") for word in (f"--{name}", data[name])]
    given = ["compare", "ner", *files, "-o", folder, *OPTIONS, "--seeds", 1, "--jobs", 0, "--device", "cpu", *more]
    return [str(word) for word in given]


def test_the_table_goes_to_standard_output_and_a_training_that_failed_makes_the_code_1(elmore, data, tmp_path):
    ended = elmore(*words(data, tmp_path / "comparison", "--layers", "last,7"))
    assert ended.code == 1
    assert "layers=7, seed 1: failed: elmo.layers is 7, but the biLM has layers 0 to 2" in ended.err
    assert "1 run failed; to repeat it, run the same command again" in ended.err
    title, _, *rows = ended.out.splitlines()
    assert title == "ner, test: F1"
    assert [row.split("  ")[0] for row in rows] == ["without ELMo", "with ELMo", "layers=last"]


def test_ensembles_have_rows_of_their_own(elmore, data, tmp_path):
    ended = elmore(*words(data, tmp_path / "comparison", "--seeds", 2, "--ensemble"))
    assert ended.code == 0
    _, _, *rows = ended.out.splitlines()
    names = ["without ELMo", "with ELMo", "without ELMo, ensemble", "with ELMo, ensemble"]
    assert [row.split("  ")[0] for row in rows] == names
    assert "with ELMo, ensemble of 2: test " in ended.err


def test_compare_rejects_layer_that_is_no_plain_number(elmore, data, tmp_path):
    ended = elmore(*words(data, tmp_path / "comparison", "--layers", "²"))
    assert ended.code == 1
    assert "layers is '²'; it must be all, average, last, or the number of a layer" in ended.err


def test_a_list_that_is_none_is_wrong_usage(elmore, data, tmp_path):
    ended = elmore(*words(data, tmp_path / "comparison", "--lambda", "1,small"))
    assert ended.code == 2
    assert "'1,small' is not a list such as 0.001,1" in ended.err


@pytest.mark.skipif(os.name != "posix", reason="sends Ctrl-C as only POSIX has it")
def test_ctrl_c_saves_and_says_how_to_go_on(data, tmp_path):
    command = elmore_command(*words(data, tmp_path / "comparison", "-v", "--training.epochs", 1000))
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as running:
        while "epoch 1," not in running.stderr.readline():
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "stopped; 0 of 2 runs are done, and the others are saved" in told
    assert f"to resume it: elmore compare ner --train {data['train']}" in told
