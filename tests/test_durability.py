"""What claims to be whole or not there is so after a power cut: on disk before it has its name, the name right after.

Every file and folder that Elmore writes for keeps is written here once, with a journal of syncs and renames.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from disk_journal import assert_durable, recorded
from elmore import Embedder, load
from elmore.corpus.corpus import Corpus
from elmore.embedding.spool import Spool
from elmore.embedding.vector_files import VectorType, writer_for
from elmore.embedding.warm_start import embed_vocabulary
from elmore.files.atomic_files import atomic_write, atomic_write_folder
from elmore.formats.token_embeddings import write_token_embeddings
from elmore.model import save
from elmore.text.vocabulary import Vocabulary
from elmore.training.checkpoints import Snapshot, TrainingCheckpoints
from elmore.training.events import Progressed
from elmore.training.run_folder import RunFolder, RunSettings, StoredRun
from embedded_sentences import DIM, numbered
from small_runs import small_corpus, small_recipe, small_run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a folder is synced the POSIX way")


def test_a_file(tmp_path: Path) -> None:
    with recorded(tmp_path) as journal, atomic_write(tmp_path / "file") as unfinished:
        unfinished.write_text("new")
    assert journal.targets == ["file"]
    assert_durable(journal)


@pytest.mark.parametrize("there", [False, True], ids=["new", "in the place of another"])
def test_a_folder_with_all_that_is_in_it(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "file").write_text("old")
    with recorded(tmp_path) as journal, atomic_write_folder(tmp_path / "folder", replaces=["file"]) as unfinished:
        (unfinished / "file").write_text("new")
        (unfinished / "deep").mkdir()
        (unfinished / "deep" / "file").write_text("new")
    assert journal.targets == ["folder"]
    assert_durable(journal)


@pytest.mark.parametrize("format_name", ["folder", "folder-int8", "hdf5"])
def test_a_model(tmp_path: Path, tiny_model, format_name: str) -> None:
    with recorded(tmp_path) as journal:
        save(tiny_model, tmp_path / "model", format=format_name)
    assert journal.targets == ["model"]
    assert_durable(journal)


def test_a_file_of_word_vectors(tmp_path: Path) -> None:
    (tmp_path / "vocabulary.txt").write_text("</S>\n<S>\n<UNK>\nbow\n")
    model = load("tiny-random", vocabulary=tmp_path / "vocabulary.txt")
    assert isinstance(model.vocabulary, Vocabulary)
    with recorded(tmp_path) as journal:
        write_token_embeddings(embed_vocabulary(model), tmp_path / "words.hdf5")
    assert journal.targets == ["words.hdf5"]
    assert_durable(journal)


def test_a_prepared_corpus(tmp_path: Path) -> None:
    with recorded(tmp_path) as journal:
        small_corpus(tmp_path / "prepared")
    assert journal.targets == ["prepared"]
    assert_durable(journal)


def test_a_module_with_its_mixes(tmp_path: Path) -> None:
    from elmore import Elmo

    with recorded(tmp_path) as journal:
        Elmo.from_pretrained("tiny-random", mixes=2).save_pretrained(tmp_path / "elmo")
    assert journal.targets == ["elmo"]
    assert_durable(journal)


def test_spool_commit_is_on_disk_after_all_that_it_counts(tmp_path: Path) -> None:
    with recorded(tmp_path) as journal:
        with Spool(tmp_path / "work", {"job": 1}, writer_for("v.npz"), VectorType(DIM)) as spool:
            for number in range(1, 5):
                spool.append(numbered([number]))
                if number % 2 == 0:
                    spool.commit()
        commits = journal.of("spool.json")
        assert len(commits) == 2
        assert [commit.neighbours_unsynced for commit in commits] == [[]] * 2
    assert_durable(journal)


@pytest.mark.parametrize("suffix", [".h5", ".npz", ".parquet"])
def test_file_of_vectors_is_on_disk_before_it_has_its_name(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"vectors{suffix}"
    spool = Spool(tmp_path / "work", {"job": 1}, writer_for(target), VectorType(DIM))
    with recorded(tmp_path) as journal, spool:
        spool.append(numbered([1, 2]))
        spool.finish(target)
    committed = [] if suffix == ".parquet" else ["work/spool.json"]  # its first row group is not full
    assert journal.targets == [*committed, target.name]
    assert_durable(journal)


def test_a_file_of_vectors_in_the_layout_of_allennlp(tmp_path: Path, tiny: Embedder) -> None:
    from elmore.compat.allennlp import ElmoEmbedder

    save(tiny.model, tmp_path / "model", format="hdf5")
    (tmp_path / "text").write_text("I took a bow .\nMe too .\n")
    embedder = ElmoEmbedder(str(tmp_path / "model" / "options.json"), str(tmp_path / "model" / "weights.hdf5"))
    with recorded(tmp_path) as journal, (tmp_path / "text").open() as text:
        embedder.embed_file(text, str(tmp_path / "vectors.hdf5"))
    assert journal.targets == ["vectors.hdf5"]
    assert_durable(journal)


def test_a_checkpoint_of_a_training(tmp_path: Path) -> None:
    with recorded(tmp_path) as journal:
        TrainingCheckpoints(tmp_path / "run" / "checkpoints").save(1, Snapshot({"weight": torch.ones(3)}, {}))
    assert journal.targets == ["run/checkpoints/step-00000001"]
    assert_durable(journal)


def test_what_makes_a_folder_a_run_is_named_last(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with recorded(tmp_path) as journal:
        folder.write(StoredRun({}, asdict(RunSettings()), {}))
    assert [Path(target).name for target in journal.targets] == ["run.json", "settings.json", "recipe.json"]
    assert_durable(journal)


def test_a_training_from_its_first_file_to_its_model(tmp_path: Path, corpus: Corpus) -> None:
    with recorded(tmp_path) as journal:
        for event in (events := small_run(corpus, tmp_path / "run", small_recipe(**{"training.steps": 12}))):
            if isinstance(event, Progressed) and event.step.number == 7:
                events.stop()
        list(small_run(corpus, tmp_path / "run", resume=True))
    names = {Path(target).name for target in journal.targets}
    assert names >= {"run.json", "settings.json", "recipe.json", "log.jsonl", "step-00000005", "step-00000010", "model"}
    assert_durable(journal)


def test_a_process_killed_at_any_point_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    program = Path(__file__).with_name("killed_at_every_point.py")
    ended = subprocess.run(
        [sys.executable, str(program), str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    killed = json.loads(ended.stdout)  # so many times
    assert {name.partition(".")[0] for name in killed} == {
        *("File", "Folder", "SpoolCommit", "SpoolFinish", "TrainingCheckpoint", "RewoundLog")
    }
    assert killed["File"] >= 6
    for suffix in (".h5", ".npz", ".parquet"):
        assert killed[f"SpoolCommit{suffix}"] >= 40
        assert killed[f"SpoolFinish{suffix}"] >= 20
