"""Semantic roles: one example a predicate, tags that are always possible, and predicates found in raw text."""

from pathlib import Path

import pytest
import torch

import small_tasks
from elmore.engine.rows import bucket_by_length
from elmore.errors import InputError, InputWarning
from elmore.tasks.comparison.jobs import read_data
from elmore.tasks.core import batching
from elmore.tasks.core.trained_model import TrainedModel, load
from elmore.tasks.core.training_run import resolve_recipe, train
from elmore.tasks.inputs.layer_cache import LayerReader
from elmore.tasks.readers.conll2012 import propositions, read_conll2012
from elmore.tasks.readers.tag_schemes import spans_of
from elmore.tasks.srl import model as role_labeling
from elmore.tasks.srl.model import PredictedFrame, PredictedRoles, RoleExample
from elmore.tasks.srl.task import SRL, SrlOptions

# Two predicates, one whose V is at another token than its lemma, and a sentence without any.
TWO = """#begin document (two); part 000
d 0 0 He - * - - - - * (ARG0*) * -
d 0 1 went - * go 01 - - * (V*) * -
d 0 2 to - * - - - - * (ARGM-PRP* * -
d 0 3 wake - * wake 01 - - * * * -
d 0 4 up - * - - - - * *) (V*) -

d 0 0 Hello - * - - - - * -
#end document
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return small_tasks.write_data(tmp_path_factory.mktemp("data"))["srl"]


@pytest.fixture(scope="module")
def model(data, tmp_path_factory) -> TrainedModel:
    folder = tmp_path_factory.mktemp("runs") / "srl"
    small_tasks.train_small("srl", folder, data)
    return load(folder, device="cpu")


def test_every_predicate_is_an_example_and_a_sentence_without_one_too(tmp_path):
    (tmp_path / "two.conll").write_text(TWO)
    examples, notices = SRL.read([tmp_path / "two.conll"], SrlOptions(), to_train=True)
    assert [(example.predicate, example.predicates) for example in examples] == [(1, [1, 3]), (3, [1, 3]), (None, [])]
    assert examples[0].tags == ["B-ARG0", "B-V", "B-ARGM-PRP", "I-ARGM-PRP", "I-ARGM-PRP"]
    assert examples[1].location == f"{tmp_path / 'two.conll'}, line 5"
    assert [example.is_first_of_sentence for example in examples] == [True, False, True]
    assert notices == ("1 predicate with V at another token; the token with the lemma is used",)


def test_long_sentences_are_left_out_of_training_alone_and_counted(tmp_path):
    (tmp_path / "two.conll").write_text(TWO)
    short = SrlOptions(longest_sentence=4)
    examples, notices = SRL.read([tmp_path / "two.conll"], short, to_train=True)
    assert len(examples) == 1
    assert notices == ("left out 1 sentence of more than 4 tokens (task.longest_sentence)",)
    assert len(SRL.read([tmp_path / "two.conll"], short, to_train=False).examples) == 3


def test_roles_of_another_set_are_refused_and_one_that_was_never_seen_is_missed():
    example = RoleExample(["go", "on"], 0, [0], ["B-V", "B-A1"], location="a.conll, line 2")
    with pytest.raises(
        InputError, match=r"^a.conll, line 2: no label of this data \(A1\) is in the training data, which has "
    ):
        SRL.check([example], {"roles": ["ARG1", "V"]})
    rare = example._replace(tags=["B-V", "B-ARG9"])
    known = {"roles": ["ARG1", "V"]}
    SRL.check([rare, example._replace(tags=["B-V", "B-ARG1"])], known)
    assert SRL.unseen([rare, example._replace(tags=["B-V", "B-ARG1"])], known) == [
        "1 argument has a label that is not in the training data and counts as wrong: ARG9"
    ]
    assert SRL.unseen([rare, rare], known) == [
        "2 arguments have labels that are not in the training data and count as wrong: ARG9"
    ]
    assert SRL.unseen([example._replace(tags=["B-V", "B-ARG1"])], known) == []
    score = SRL.metric.score([rare], [PredictedRoles([PredictedFrame(0, ["B-V", "O"])], [0])])
    assert (score.value, score.parts["gold"], score.parts["ARG9.recall"]) == (0, 1, 0)
    with pytest.raises(InputError, match="the training data has no predicates"):
        SRL.labels([RoleExample(["Hi"], None, [])], SrlOptions())


def test_the_score_counts_each_sentence_once_for_the_predicates_that_would_be_found():
    tags = ["B-V", "B-ARG1"]
    examples = [RoleExample(["a", "b"], n, [0, 1], tags) for n in (0, 1)] + [RoleExample(["c"], None, [])]
    frame = PredictedFrame(0, tags)
    score = SRL.metric.score(examples, [PredictedRoles([frame], [0])] * 2 + [PredictedRoles([], [0])])
    assert score.value == 100
    assert [score.parts[f"predicate_tagger.{name}"] for name in ("gold", "found", "correct")] == [2, 2, 1]
    assert score.table.startswith("Number of Sentences    :           2\n")
    rows = SRL.metric.rows(examples, [PredictedRoles([frame], [])] * 2 + [PredictedRoles([], [])])
    assert rows.values.tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]


def test_predicates_of_raw_text_are_found_with_their_arguments_and_places(model):
    text = "John gave Mary a book. Mary sleeps in Paris."
    [result] = model.predict([text])
    assert [(one.text, [(a.label, a.text) for a in one.arguments]) for one in result.predicates] == [
        ("gave", [("ARG0", "John"), ("ARG2", "Mary"), ("ARG1", "a book")]),
        ("sleeps", [("ARG0", "Mary"), ("ARGM-LOC", "in Paris")]),
    ]
    for record in (*result.predicates, *(a for one in result.predicates for a in one.arguments)):
        assert text[record.start : record.end] == record.text
    assert str(result).split("\n\n")[1].splitlines() == [
        "Mary\t-\t(ARG0*)",
        "sleeps\tsleeps\t(V*)",
        "in\t-\t(ARGM-LOC*",
        "Paris\t-\t*)",
        ".\t-\t*",
    ]


def test_an_argument_that_goes_on_keeps_its_label_and_a_text_without_predicates_has_none(model):
    [came, none] = model.predict(["A book came that slept.", "In Paris."])
    assert [argument.label for argument in came.predicates[0].arguments] == ["ARG1", "C-ARG1"]
    assert none.predicates == ()
    assert str(none) == "In\t-\nParis\t-\n.\t-\n"


def test_predict_divides_very_long_sentence(model, monkeypatch):
    monkeypatch.setattr("elmore.tasks.srl.task.MAX_SENTENCE", 5)
    monkeypatch.setattr("elmore.tasks.srl.task.DIVIDED_LENGTH", 4)
    with pytest.warns(InputWarning, match="^text 2: a sentence has 6 tokens.* divided into parts of 4"):
        short, long = model.predict(["Mary sleeps in Paris.", "Mary sleeps.\nMary sleeps in old Paris."])
    assert (short.sentences, long.sentences) == ((5,), (3, 4, 2))
    assert [long.text[start:end] for start, end in long.offsets] == list(long.tokens)


def test_what_has_no_words_is_no_sentence(model):
    [result, without] = model.predict(["Mary sleeps. \u200b\n\u00ad\nMary sleeps.", "\u200b"])
    assert result.sentences == (3, 3)
    assert str(result).count("\n\n") == 1
    assert (without.sentences, str(without)) == ((), "")


def test_predictions_are_the_same_alone_and_in_a_batch(model):
    texts = ["John gave Mary a book.", "Mary sleeps in Paris. John gave Paris a book that slept.", "", "Hm"] * 10
    assert model.predict(texts) == [model.predict([text])[0] for text in texts]


def test_given_predicates_are_used_even_where_none_would_be_found(model, data):
    [sentence] = [one for one in read_conll2012(data)[0].sentences if "sleeps" in one.tokens]
    [proposition] = propositions(sentence)
    found = model.predict_examples([RoleExample(sentence.tokens, token, [token]) for token in range(5)])
    assert [[frame.predicate for frame in one.frames] for one in found] == [[n] for n in range(5)]
    assert spans_of(found[proposition.predicate].frames[0].tags, "bio") == proposition.arguments


@pytest.mark.parametrize("at_once", [1, 20, 4096])
def test_the_bilm_reads_a_sentence_once_however_many_predicates_it_has(model, monkeypatch, at_once):
    sentences = [["Mary", "sleeps"], ["John", "gave", "Mary", "a", "book"], ["A", "book", "that", "slept", "came"]]
    examples = [
        RoleExample(tokens, n, list(range(len(tokens)))) for tokens in sentences * 2 for n in range(len(tokens))
    ]
    expected = model.predict_examples(examples)
    read: list[list[str]] = []
    original = LayerReader.layers
    monkeypatch.setattr(
        LayerReader, "layers", lambda self, sentences: read.extend(map(list, sentences)) or original(self, sentences)
    )
    monkeypatch.setattr(batching, "PREDICTION_BATCH_TOKENS", max(at_once, 10))
    monkeypatch.setattr(batching, "bucket_by_length", lambda lengths, tokens: bucket_by_length(lengths, tokens=at_once))
    assert model.predict_examples(examples) == expected
    assert sorted(read) == sorted(sentences)


def test_however_many_predicates_a_sentence_has_few_are_labelled_at_once(model, monkeypatch):
    labeler, tokens = model.assembled.model, ["sleeps"] * 10
    predicates = list(range(len(tokens)))
    given = model.predict_examples([RoleExample(tokens, one, predicates) for one in predicates])
    read = []
    forward = labeler.encoder.forward
    monkeypatch.setattr(labeler.encoder, "forward", lambda x, lengths: read.append(len(x)) or forward(x, lengths))
    # The tagger takes every token for a predicate.
    always = torch.nn.Parameter(torch.tensor([0.0, 1e6]), requires_grad=False)
    monkeypatch.setitem(labeler.predicate_tagger.emissions._parameters, "bias", always)
    monkeypatch.setattr(role_labeling, "MAX_FRAME_TOKENS", 39)
    [roles] = model.predict_examples([RoleExample(tokens)])
    assert roles.frames == [frame for one in given for frame in one.frames]
    assert read == [3, 3, 3, 1]
    monkeypatch.setattr(role_labeling, "MAX_FRAME_TOKENS", 1)
    assert model.predict_examples([RoleExample(tokens)])[0] == roles


@pytest.mark.parametrize("token", [-1, 5])
def test_a_predicate_outside_of_its_sentence_is_refused(model, token):
    example = RoleExample(["John", "gave", "Mary", "a", "book"], token, [token], location="a.conll, line 3")
    with pytest.raises(
        InputError, match=rf"^a.conll, line 3: its predicate is token {token}; the sentence has tokens 0 to 4"
    ):
        model.predict_examples([example])


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            [("He", "-", "(ARG0*"), ("who", "-", "(ARG1*)"), ("fell", "fall", "(V*)")],
            "line 3, column 12: ARG1 begins inside of ARG0",
        ),
        (
            [("He", "-", "(ARG0*"), ("fell", "fall", "*")],
            "line 2, column 12: ARG0 has no end in its sentence",
        ),
        ([("He", "-", "(ARG0*)"), ("fell", "fall", "*")], "line 3: the arguments of 'fell' .column 12. have no V"),
        (
            [("He", "-", "(ARG0*)"), ("fell", "-", "(V*)")],
            "line 2: has 1 column of arguments and 0 predicates with a roleset",
        ),
    ],
)
def test_arguments_that_cannot_be_are_named_and_leave_no_run_behind(rows, told, data, tmp_path):
    lines = [f"d 0 0 {word} - * {lemma} {'-' if lemma == '-' else '01'} - - * {cell} -" for word, lemma, cell in rows]
    (tmp_path / "odd.conll").write_text("\n".join(["#begin document (d); part 000", *lines, "", "#end document", ""]))
    with pytest.raises(InputError, match=rf"odd\.conll, {told}"):
        small_tasks.train_small("srl", tmp_path / "run", tmp_path / "odd.conll")
    assert not (tmp_path / "run").exists()


def test_tags_are_always_possible_whatever_the_weights_say(model):
    network = model.assembled.model
    examples = [RoleExample(["a", "b", "c", "d"], n, [n]) for n in range(4)]
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    try:
        torch.manual_seed(3)
        with torch.no_grad():
            network.output.weight.normal_(std=20)
        found = model.predict_examples(examples)
    finally:
        network.load_state_dict(before)
    tags = [one.frames[0].tags for one in found]
    assert any(tag.startswith("B-") for own in tags for tag in own)
    for own in tags:
        spans_of(own, "bio")  # refuses what is impossible


def test_the_tagger_of_predicates_moves_nothing_but_itself(model):
    network, maker = model.assembled.model, model.assembled.maker
    sentence = RoleExample(["In", "Paris"], None, [])
    network.requires_grad_(requires_grad=True)
    network.zero_grad()
    network.loss(maker.batch([sentence])).backward()
    moved = {name for name, one in network.named_parameters() if one.grad is not None and one.grad.any()}
    # The penalty of the mix is its own.
    assert {name.split(".")[0] for name in moved if not name.startswith("embedder.mixes")} == {"predicate_tagger"}
    network.requires_grad_(requires_grad=False)


def test_a_sentence_counts_once_for_the_tagger_of_predicates_however_many_it_has(model):
    network, maker = model.assembled.model, model.assembled.maker
    tokens, tags = ["Mary", "sleeps", "gave"], ["O", "B-V", "O"]
    network.eval()
    both = [RoleExample(tokens, n, [1, 2], tags) for n in (1, 2)]
    alone = [network.loss(maker.batch([one])).item() for one in both]
    assert network.loss(maker.batch(both)).item() == pytest.approx(sum(alone) / 2, rel=1e-5)
    vectors = network.embedder(maker.batch(both[:1]).inputs[0])
    finding = torch.tensor([[0, 1, 1]])
    whole = network.predicate_tagger.loss(
        network._predicate_logits(vectors, [3]), finding, torch.ones(1, 3, dtype=torch.bool)
    )
    roles = network._log_probs(vectors, [(0, 1)], torch.tensor([0]), [3])[0]
    chosen = sum(roles[n, network.tags.index(tag)] for n, tag in enumerate(tags))
    assert alone[0] == pytest.approx((whole[0] / 2 - chosen + network.embedder.penalty()).item(), rel=1e-5)


def test_a_column_leaves_the_verb_out_where_an_argument_holds_it():
    from elmore.tasks.srl.task import Argument, Predicate, RoleText

    def columns(argument: Argument) -> list[str]:
        text = RoleText(
            "aa bb cc", ("aa", "bb", "cc"), ((0, 2), (3, 5), (6, 8)), (3,), (Predicate("bb", 3, 5, (argument,)),)
        )
        return [line.split("\t")[-1] for line in str(text).splitlines() if line]

    assert columns(Argument("aa bb", "ARG1", 0, 5)) == ["(ARG1*", "*)", "*"]
    assert columns(Argument("aa", "ARG1", 0, 2)) == ["(ARG1*)", "(V*)", "*"]


def test_a_sentence_is_read_for_each_of_its_predicates(model):
    network, maker = model.assembled.model, model.assembled.maker
    network.eval()
    [inputs] = maker.batch([RoleExample(["In", "Paris"]), RoleExample(["Mary", "sleeps", "gave"])]).inputs
    vectors = network.embedder(inputs)
    asked = [(1, 1), (0, 0), (1, 2)]
    found = network._log_probs(vectors, asked, torch.tensor([1, 0, 1]), inputs.lengths)
    for (row, token), chances in zip(asked, found, strict=True):
        length = inputs.lengths[row]
        flags = network.is_predicate.weight[[int(place == token) for place in range(length)]]
        x = torch.cat([vectors.input[row, :length], flags], dim=1)
        expected = network.output(network.encoder(x[None], [length]))[0].log_softmax(dim=1)
        torch.testing.assert_close(chances[:length], expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found[0], found[2])


def test_the_official_file_has_the_given_predicates_and_reads_as_the_key_does(model, tmp_path):
    file = tmp_path / "two.conll"
    file.write_text(TWO, encoding="utf-8")
    with pytest.warns(InputWarning, match="1 predicate with V at another token"):
        written = model.official_predictions(file)
    rows = [line.split("\t") for line in written.splitlines()]
    assert [len(row) for row in rows] == [3, 3, 3, 3, 3, 1, 1]
    assert [row[0] for row in rows] == ["-", "went", "-", "wake", "-", "", "-"]
    examples = SRL.read([file], SrlOptions(), to_train=False).examples
    for column, example, prediction in zip((1, 2), examples, model.predict_examples(examples), strict=False):
        cells = [row[column] for row in rows[:5]]
        tags = prediction.frames[0].tags
        assert [cell.count("(") for cell in cells] == [
            int(tag.startswith("B-") and tag != "B-V") or int(place == example.predicate)
            for place, tag in enumerate(tags)
        ]


def test_predicates_that_nobody_has_labelled_are_labelled_and_never_scored_or_learnt(model, data, tmp_path):
    unlabelled, labelled = tmp_path / "test.conll", data.read_text().splitlines()
    rows = [[*row[:11], row[-1]] if len(row := line.split("\t")) > 12 else [line] for line in labelled]
    unlabelled.write_text("".join("\t".join(row) + "\n" for row in rows))
    assert all(len(row) in (1, 12) for row in rows)
    assert model.official_predictions(unlabelled) == model.official_predictions(data)
    told = r"test\.conll, line 3: the predicate 'gave' has no column of arguments and cannot be "
    with pytest.raises(InputError, match=f"{told}scored; for predictions only, run elmore predict --official"):
        model.evaluate(unlabelled)
    for train_file, dev in ((unlabelled, data), (data, unlabelled)):
        verb = "used for training" if train_file == unlabelled else "scored"
        with pytest.raises(InputError, match=f"{told}{verb}"):
            list(train("srl", tmp_path / "run", train=train_file, dev=dev, device="cpu"))
    assert not (tmp_path / "run").exists()


def test_data_without_predicates_is_refused_where_it_would_be_scored(model, tmp_path):
    file = tmp_path / "none.conll"
    file.write_text("#begin document (d); part 000\nd 0 0 Hello - * - - - - * -\n#end document\n", encoding="utf-8")
    with pytest.raises(
        InputError,
        match=r"none\.conll, line 2: the data has no predicates; expected columns of arguments, as in CoNLL-2012",
    ):
        model.evaluate(file)


def test_roles_that_were_never_seen_are_counted_wherever_they_would_be_missed(model, data, tmp_path):
    other = tmp_path / "other.conll"
    other.write_text(data.read_text().replace("ARGM-LOC", "ARGM-TMP").replace("ARG2", "ARG4"))
    told = "2 arguments have labels that are not in the training data and count as wrong: ARG4, ARGM-TMP"
    assert model.evaluate(data).notices == ()
    assert model.evaluate(other).notices == (told,)
    recipe = resolve_recipe(SRL, {**small_tasks.TRAINING, **small_tasks.SMALL["srl"], "elmo.where": "none"})
    opened = next(iter(train("srl", tmp_path / "run", train=data, dev=other, recipe=recipe, device="cpu")))
    assert opened.notices == (f"dev: {told}",)
    compared = read_data(SRL, recipe, train=[data], dev=[data], tests={"test": [other]})
    assert compared.notices == (f"test: {told}",)
