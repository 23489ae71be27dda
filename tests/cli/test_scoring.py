"""`elmore perplexity`, `surprisal` and `substitutes` hand the user's wishes on and print what came of them."""

import csv
import inspect
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from elmore.cli.app import program
from elmore.corpus.prepare import prepare
from elmore.errors import InputError, InputWarning
from elmore.scoring import perplexity

pytestmark = pytest.mark.filterwarnings("ignore:.*of the text is <UNK>:elmore.errors.InputWarning")


@pytest.fixture
def model(fixtures: Path) -> Path:
    return fixtures / "bilm-tf-checkpoint"


@pytest.fixture
def data(model: Path) -> Path:
    return model / "data.txt"


def run(*arguments: object):
    return CliRunner().invoke(program, [str(argument) for argument in arguments])


class TestPerplexity:
    def test_perplexity_json_has_figures_and_settings(self, model: Path, data: Path) -> None:
        result = run("perplexity", "--model", model, data, "--tokenized", "--batch-size", 1, "--passage", 1, "--json")
        assert result.exit_code == 0, result.output
        facts = json.loads(result.stdout)
        expected = json.loads((model / "expected_perplexity.json").read_text())["batch_size_1"]
        assert facts["mean"] == pytest.approx(expected, rel=1e-6)
        assert {name: facts[name] for name in ("tokens", "sentences", "state", "batch_size", "passage")} == {
            "tokens": 139,
            "sentences": 5,
            "state": "carry",
            "batch_size": 1,
            "passage": 1,
        }

    def test_perplexity_prints_a_few_lines(self, model: Path, data: Path) -> None:
        result = run("perplexity", "--model", model, data, "--tokenized")
        assert result.stdout.splitlines()[:3] == [
            "tokens    139 (words and the ends of sentences), in 5 sentences",
            "<UNK>     34.53%",
            "state     carried in 64 rows with 256 consecutive sentences",
        ]
        assert [line.split()[0] for line in result.stdout.splitlines()[3:]] == ["forward", "backward", "mean"]

    def test_perplexity_accepts_state_and_first_words(self, model: Path, data: Path) -> None:
        result = run(
            "perplexity", "--model", model, data, "--tokenized", "--state", "fixed", "--first-words", 1, "--json"
        )
        facts = json.loads(result.stdout)
        assert (facts["tokens"], facts["state"], facts["first_words"]) == (5, "fixed", 1)
        assert "batch_size" not in facts

    def test_perplexity_joins_files_and_skips_blank_lines(self, model: Path, data: Path, tmp_path: Path) -> None:
        lines = data.read_text().splitlines()
        for name, part in (("a", lines[:2]), ("b", ["", *lines[2:], ""])):
            (tmp_path / name).write_text("\n".join(part) + "\n")
        whole, parts = (
            json.loads(run("perplexity", "--model", model, *texts, "--tokenized", "--json").stdout)
            for texts in ([data], [tmp_path / "a", tmp_path / "b"])
        )
        assert parts["texts"] == [str(tmp_path / "a"), str(tmp_path / "b")]
        assert {**parts, "texts": whole["texts"]} == whole

    def test_perplexity_reads_folders_and_globs(self, model: Path, data: Path, tmp_path: Path, monkeypatch) -> None:
        lines = data.read_text().splitlines()
        (tmp_path / "folder").mkdir()
        for number, line in enumerate(lines):
            (tmp_path / "folder" / f"{number}.txt").write_text(line + "\n")
        whole, folder, globbed = (
            json.loads(run("perplexity", "--model", model, text, "--tokenized", "--json").stdout)["mean"]
            for text in (data, tmp_path / "folder", tmp_path / "folder" / "*.txt")
        )
        assert whole == folder == globbed

    @pytest.mark.parametrize("command", ["perplexity", "surprisal"])
    def test_scoring_warns_about_skipped_files(self, model: Path, data: Path, tmp_path: Path, command: str) -> None:
        (tmp_path / "a.txt").write_text(data.read_text())
        (tmp_path / "cover.png").touch()
        with pytest.warns(InputWarning, match="some of the input is skipped: 1 skipped file"):
            run(command, "--model", model, tmp_path, "--tokenized")

    @pytest.mark.parametrize("command", ["perplexity", "surprisal"])
    def test_scoring_rejects_tokenized_for_a_folder_of_treebanks(
        self, tmp_path: Path, monkeypatch, command: str
    ) -> None:
        monkeypatch.setattr("elmore.model.load", lambda *_, **__: pytest.fail("loaded a model"))
        (tmp_path / "a.conllu").touch()
        result = run(command, tmp_path, "--tokenized")
        assert "a.conllu: is conllu by its name" in str(result.exception)

    def test_perplexity_of_the_working_folder_reads_its_texts(
        self, model: Path, data: Path, tmp_path: Path, monkeypatch
    ):
        (tmp_path / "a.txt").write_text(data.read_text())
        monkeypatch.chdir(tmp_path)
        assert run("perplexity", "--model", model, ".", "--tokenized").exit_code == 0

    def test_perplexity_accepts_another_language(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("l'esprit de l'escalier, etc.\n")
        tokens = {
            code: json.loads(run("perplexity", "-m", model, tmp_path / "text.txt", *flags, "--json").stdout)["tokens"]
            for code, flags in {"en": (), "fr": ("--language", "fr"), "": ("--tokenizer", "whitespace")}.items()
        }
        assert tokens[""] == 5
        assert tokens[""] < tokens["fr"] <= tokens["en"]

    def test_perplexity_paragraphs_option_joins_wrapped_lines(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("neural language\nmodels are\n\ngood words\n")
        sentences = [
            json.loads(run("perplexity", "-m", model, tmp_path / "text.txt", "--paragraphs", how, "--json").stdout)
            for how in ("line", "blank-line")
        ]
        assert [found["sentences"] for found in sentences] == [3, 2]

    @pytest.mark.parametrize("name", ["heldout", "heldout.bin", "train"])
    def test_perplexity_reads_a_part_of_a_corpus(self, model: Path, data: Path, tmp_path: Path, name: str) -> None:
        lines = data.read_text().splitlines()
        (tmp_path / "text").write_text("\n\n".join(lines) + "\n")
        corpus = prepare(
            [str(tmp_path / "text")], tmp_path / "prepared", input_format="tokenized", heldout=0.4, workers=1
        )
        part = corpus.train if name == "train" else corpus.heldout
        facts = json.loads(run("perplexity", "--model", model, tmp_path / "prepared" / name, "--json").stdout)
        assert facts["sentences"] == (part == 0).sum() - 1 > 0
        assert facts["tokens"] == len(part) - 1

    def test_perplexity_has_the_defaults_of_python(self) -> None:
        command = program.get_command(None, "perplexity")
        ours = {parameter.name: parameter.get_default(click.Context(command)) for parameter in command.params}
        theirs = inspect.signature(perplexity).parameters
        for name in ("state", "batch_size", "passage"):
            assert ours[name] == theirs[name].default

    def test_perplexity_rejects_a_model_without_softmax(self, data: Path) -> None:
        result = run("perplexity", "--model", "tiny-random", data)
        assert isinstance(result.exception, InputError)
        assert "tiny-random (built in) has no softmax" in str(result.exception)

    def test_perplexity_warns_about_mostly_unknown_text(self, model: Path, data: Path) -> None:
        with pytest.warns(InputWarning, match="35% of the text is <UNK>"):
            run("perplexity", "--model", model, data, "--tokenized")


class TestSurprisal:
    def test_surprisal_table_has_a_line_for_every_word(self, model: Path, data: Path, tmp_path: Path) -> None:
        result = run("surprisal", "--model", model, data, "--tokenized", "-o", tmp_path / "scores.tsv")
        assert result.exit_code == 0, result.output
        assert (result.stdout, result.stderr) == ("", f"wrote {tmp_path / 'scores.tsv'}: 134 words\n")
        with (tmp_path / "scores.tsv").open(newline="") as file:
            rows = list(csv.DictReader(file, dialect="excel-tab"))
        assert [row["word"] for row in rows] == data.read_text().split()
        assert all(float(row["forward"]) > 0 and float(row["backward"]) > 0 for row in rows)

    def test_surprisal_writes_to_standard_output_for_dash(self, model: Path, data: Path) -> None:
        result = run("surprisal", "--model", model, data, "--tokenized", "-o", "-")
        assert result.stdout.splitlines()[0].split("\t")[:3] == ["sentence", "position", "word"]
        assert len(result.stdout.splitlines()) == 135

    @pytest.mark.parametrize("name", ["scores.csv", "scores.json", "scores.jsonl"])
    def test_surprisal_format_follows_file_name(self, model: Path, data: Path, tmp_path: Path, name: str) -> None:
        result = run("surprisal", "--model", model, data, "--tokenized", "-o", tmp_path / name)
        assert result.exit_code == 0, result.output
        content = (tmp_path / name).read_text()
        match name:
            case "scores.csv":
                words = [row["word"] for row in csv.DictReader(content.splitlines())]
            case "scores.json":
                words = [row["word"] for row in json.loads(content)]
            case _:
                words = [json.loads(line)["word"] for line in content.splitlines()]
        assert words == data.read_text().split()

    def test_surprisal_rejects_unknown_suffix_before_loading(self, data: Path, monkeypatch) -> None:
        monkeypatch.setattr("elmore.model.load", lambda *_, **__: pytest.fail("loaded a model"))
        result = run("surprisal", data, "-o", "scores.xlsx")
        assert "scores.xlsx: a table of surprisals is written to .tsv" in str(result.exception)

    @pytest.mark.parametrize("name", ["scores.tsv", "scores.csv", "scores.json", "scores.jsonl"])
    def test_surprisal_replaces_tables_only(self, model: Path, data: Path, tmp_path: Path, name: str) -> None:
        out = tmp_path / name
        command = ("surprisal", "--model", model, data, "--tokenized", "-o", out)
        out.write_text("years of work\n")
        assert f"{out}: exists, and was not written by Elmore" in str(run(*command).exception)
        assert out.read_text() == "years of work\n"
        assert run(*command, "--force").exit_code == 0
        assert run(*command).exit_code == 0

    def test_surprisal_does_not_replace_its_input(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("good words\n")
        result = run("surprisal", "-m", model, tmp_path / "text.txt", "-o", tmp_path / "text.txt", "--force")
        assert "is an input, and would be replaced" in str(result.exception)

    def test_surprisal_writes_logarithms_on_request(self, model: Path, data: Path) -> None:
        lines = run("surprisal", "--model", model, data, "--tokenized", "--log-probabilities").stdout.splitlines()
        assert lines[0].split("\t")[4:] == ["log_forward", "log_backward", "log_both"]
        assert all(float(line.split("\t")[4]) < 0 for line in lines[1:])

    def test_surprisal_prints_no_header_before_an_error(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_bytes(b"\xff\n")
        result = run("surprisal", "--model", model, tmp_path / "text.txt")
        assert isinstance(result.exception, InputError)
        assert result.stdout == ""

    def test_surprisal_rejects_contradicting_formats(self, model: Path, data: Path) -> None:
        result = run("surprisal", "--model", model, data, "--tokenized", "--input-format", "conllu")
        assert "--tokenized and --input-format conllu contradict each other" in str(result.exception)

    def test_surprisal_converts_penn_tokens_on_request(self, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("I do n't know -LRB- really -RRB- .\n")
        command = ("surprisal", tmp_path / "text.txt", "--tokenized")
        with pytest.warns(InputWarning, match="the tokens look Penn-style"):
            lines = run(*command).stdout.splitlines()
        assert [line.split("\t")[2] for line in lines[2:5]] == ["do", "n't", "know"]
        lines = run(*command, "--token-style", "penn").stdout.splitlines()
        assert [line.split("\t")[2] for line in lines[2:6]] == ["don", "'t", "know", "("]

    def test_surprisal_advises_an_existing_token_style(self, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("I do n't know a well - known man .\n")
        command = ("surprisal", tmp_path / "text.txt", "--tokenized")
        with pytest.warns(InputWarning, match="--token-style ud"):
            run(*command)
        lines = run(*command, "--token-style", "ud").stdout.splitlines()
        assert [line.split("\t")[2] for line in lines[2:8]] == ["don", "'t", "know", "a", "well-known", "man"]

    def test_surprisal_rejects_token_style_for_text(self, data: Path) -> None:
        result = run("surprisal", data, "--token-style", "penn")
        assert f"{data}: is read as text, and token_style='penn' is for tokenized input" in str(result.exception)

    def test_surprisal_splits_and_tokenizes_raw_text(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_text("The model is good. It predicts words.\n")
        lines = run("surprisal", "--model", model, tmp_path / "text.txt").stdout.splitlines()
        assert [line.split("\t")[:3] for line in lines[4:7]] == [["0", "3", "good"], ["0", "4", "."], ["1", "0", "It"]]

    def test_surprisal_leaves_no_file_after_damaged_input(self, model: Path, tmp_path: Path) -> None:
        (tmp_path / "text.txt").write_bytes(b"good words\n\xff\n")
        result = run("surprisal", "--model", model, tmp_path / "text.txt", "--tokenized", "-o", tmp_path / "scores.tsv")
        assert isinstance(result.exception, InputError)
        assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


class TestSubstitutes:
    def test_substitutes_prints_three_columns(self, model: Path) -> None:
        result = run("substitutes", "--model", model, "neural [language] models", "--top", 3)
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert [title.strip() for title in lines[0].split("  ") if title] == [
            "from the left",
            "from the right",
            "from both",
        ]
        assert [line.count("%") for line in lines[1:]] == [3, 3, 3]

    def test_substitutes_json_has_three_lists(self, model: Path) -> None:
        result = run("substitutes", "--model", model, "neural [language] models", "--top", 2, "--json", "--tokenized")
        facts = json.loads(result.stdout)
        assert facts["sentence"] == "neural [language] models"
        assert [len(facts[side]) for side in ("forward", "backward", "both")] == [2, 2, 2]
        assert set(facts["both"][0]) == {"word", "probability"}

    def test_substitutes_prints_special_tokens_on_request(self, model: Path) -> None:
        command = ("substitutes", "--model", model, "neural [language] models", "--top", 99)
        assert "<UNK>" not in run(*command).stdout
        assert "<UNK>" in run(*command, "--specials").stdout

    def test_substitutes_converts_penn_tokens_on_request(self, model: Path) -> None:
        command = ("substitutes", "--model", model, "--tokenized")
        penn = run(*command, "models do n't [see] -LRB- this -RRB-", "--token-style", "penn")
        assert penn.stdout == run(*command, "models don 't [see] ( this )").stdout
        with pytest.warns(InputWarning, match="look Penn-style"):
            run(*command, "models do n't [see] -LRB- this -RRB-")
        refused = run("substitutes", "--model", model, "models [see]", "--token-style", "penn")
        assert "add --tokenized" in str(refused.exception)
