"""Words become the numbers the published models were trained on."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elmore.config import SMALL, CharacterConfig, ModelConfig
from elmore.errors import FormatError, InputError
from elmore.text.vocabulary import Vocabulary
from elmore.text.word_ids import ByteAlphabet, CodepointAlphabet, WordIds, WordIndexer
from reference.many_languages import ManyLanguagesModel
from reference.published import character_ids
from reference.strategies import LETTERS, patiently, words

SENTENCE_BEGIN, SENTENCE_END, WORD_BEGIN, WORD_END, PADDING = 256, 257, 258, 259, 260

# As the last six ids, where ELMoForManyLangs has them.
MARKS = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
CODEPOINTS = {letter: number for number, letter in enumerate([*sorted({*LETTERS, *"padbow"}), *MARKS])}


def spelt(word: str, *, max_characters: int = 50) -> list[int]:
    """What a byte model reads of a word, padding left out."""
    row = ByteAlphabet(max_characters).index([word])[0].tolist()
    assert len(row) == max_characters
    used = len(row) - row.count(PADDING)
    assert row[used:] == [PADDING] * (max_characters - used)
    return row[:used]


class TestByteAlphabet:
    def test_a_word_stands_between_its_marks(self) -> None:
        assert spelt("cat") == [WORD_BEGIN, *b"cat", WORD_END]

    def test_letters_beyond_ascii_are_several_bytes(self) -> None:
        assert spelt("Déjà") == [WORD_BEGIN, 0x44, 0xC3, 0xA9, 0x6A, 0xC3, 0xA0, WORD_END]

    def test_boundary_words_are_one_symbol(self) -> None:
        assert spelt("<S>") == [WORD_BEGIN, SENTENCE_BEGIN, WORD_END]
        assert spelt("</S>") == [WORD_BEGIN, SENTENCE_END, WORD_END]

    @pytest.mark.parametrize("word", ["<s>", "<S> ", "<UNK>", "<bos>"])
    def test_other_words_in_angle_brackets_are_spelt(self, word: str) -> None:
        assert spelt(word) == [WORD_BEGIN, *word.encode(), WORD_END]

    def test_a_model_may_name_its_own_boundaries(self) -> None:
        alphabet = ByteAlphabet(8, begin="<bos>", end="<eos>")
        first, last, other = alphabet.index(["<bos>", "<eos>", "<S>"]).tolist()
        assert first[:3] == [WORD_BEGIN, SENTENCE_BEGIN, WORD_END]
        assert last[:3] == [WORD_BEGIN, SENTENCE_END, WORD_END]
        assert other[:5] == [WORD_BEGIN, *b"<S>", WORD_END]

    def test_the_empty_word_has_only_its_marks(self) -> None:
        assert spelt("") == [WORD_BEGIN, WORD_END]

    @pytest.mark.parametrize("length", [47, 48, 49, 500])
    def test_a_long_word_keeps_its_first_48_bytes(self, length: int) -> None:
        assert spelt("x" * length) == [WORD_BEGIN, *b"x" * min(length, 48), WORD_END]

    def test_the_cut_may_fall_inside_a_letter(self) -> None:
        assert spelt("aé", max_characters=4) == [WORD_BEGIN, 0x61, 0xC3, WORD_END]

    def test_a_lone_surrogate_has_no_bytes_and_takes_no_room(self) -> None:
        assert spelt("a\ud800b") == spelt("ab")
        assert spelt("\udfff" * 60 + "end") == spelt("end")
        assert spelt("\ud800") == spelt("")

    @pytest.mark.parametrize("plane", range(17))
    def test_every_unicode_plane_has_its_bytes(self, plane: int) -> None:
        letter = chr(plane * 0x10000 + 0x1234)
        assert spelt(letter) == [WORD_BEGIN, *letter.encode(), WORD_END]

    @pytest.mark.parametrize("word", ["\x00", "\r", "\ufeff", "a\x00b", " "])
    def test_nothing_is_stripped(self, word: str) -> None:
        assert spelt(word) == [WORD_BEGIN, *word.encode(), WORD_END]

    @patiently
    @given(st.lists(words, max_size=5), st.integers(3, 60))
    @example(["\ud800" * 3 + "é" * 30], 50)
    def test_index_gives_the_ids_of_the_reference(self, some: list[str], length: int) -> None:
        rows = ByteAlphabet(length).index(some)
        assert rows.tolist() == [character_ids(word, length) for word in some]
        assert (rows.shape, rows.dtype) == ((len(some), length), np.int64)


class TestCodepointAlphabet:
    alphabet = CodepointAlphabet(CODEPOINTS, 8, begin="<bos>", end="<eos>")

    def spelt(self, word: str) -> list[str]:
        """A word's row, told by name."""
        names = list(CODEPOINTS)
        return [names[number] for number in self.alphabet.index([word])[0].tolist()]

    def test_a_word_opens_with_eow_and_closes_with_bow(self) -> None:
        assert self.spelt("cat") == ["<eow>", "c", "a", "t", "<bow>", "<pad>", "<pad>", "<pad>"]

    def test_a_letter_is_a_code_point_whatever_its_bytes(self) -> None:
        assert self.spelt("東京𝄞") == ["<eow>", "東", "京", "𝄞", "<bow>", "<pad>", "<pad>", "<pad>"]

    def test_a_long_word_keeps_its_first_code_points(self) -> None:
        assert self.spelt("東京東京東京東京") == ["<eow>", "東", "京", "東", "京", "東", "京", "<bow>"]

    def test_unknown_letters_share_one_number(self) -> None:
        assert self.spelt("cÿ\ud800") == ["<eow>", "c", "<oov>", "<oov>", "<bow>", "<pad>", "<pad>", "<pad>"]

    def test_boundary_words_are_one_symbol_in_the_text_too(self) -> None:
        assert self.spelt("<bos>")[:3] == ["<eow>", "<bos>", "<bow>"]
        assert self.spelt("<eos>")[:3] == ["<eow>", "<eos>", "<bow>"]

    @pytest.mark.parametrize("mark", ["<oov>", "<pad>", "<bow>"])
    def test_other_marks_in_the_text_are_spelt(self, mark: str) -> None:
        assert self.spelt(mark) == ["<eow>", *mark, "<bow>", "<pad>"]

    def test_the_empty_word_has_only_its_marks(self) -> None:
        assert self.spelt("")[:3] == ["<eow>", "<bow>", "<pad>"]

    @patiently
    @given(st.lists(words, max_size=5), st.integers(8, 60))
    def test_index_gives_the_ids_of_the_reference(self, some: list[str], length: int) -> None:
        config = {"token_embedder": {"max_characters_per_token": length}}
        reference = ManyLanguagesModel(config, {}, CODEPOINTS, {}, {})
        rows = CodepointAlphabet(CODEPOINTS, length, begin="<bos>", end="<eos>").index(some)
        assert rows.tolist() == [reference.character_ids(word) for word in some]
        assert rows.shape == (len(some), length)


VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", "cat", "antidisestablish"])
WORDS_ONLY = ModelConfig(
    characters=None, vocab_size=5, word_embedding_dim=4, token_projection=False, vector_dim=4, cell_dim=8, lstm_layers=1
)
MANY_LANGUAGES = replace(
    SMALL,
    characters=CharacterConfig(alphabet="codepoints", n_characters=len(CODEPOINTS), max_characters=18),
    vocab_size=5,
    word_embedding_dim=4,
    unk_token="<UNK>",
)


class TestWordIndexer:
    def test_a_character_model_reads_characters_alone(self) -> None:
        inputs = WordIndexer(SMALL).index(["cat"])
        assert inputs.word_ids is None
        assert inputs.character_ids is not None
        assert inputs.character_ids[0, :5].tolist() == [WORD_BEGIN, *b"cat", WORD_END]

    def test_a_word_model_reads_rows_of_its_table_and_knows_the_unknown(self) -> None:
        inputs = WordIndexer(WORDS_ONLY, vocabulary=VOCABULARY).index(["</S>", "cat", "Cat", ""])
        assert inputs.character_ids is None
        assert inputs.word_ids is not None
        assert inputs.word_ids.tolist() == [1, 3, 2, 2]

    def test_elmo_for_many_languages_cuts_a_word_before_looking_it_up(self) -> None:
        word_indexer = WordIndexer(MANY_LANGUAGES, vocabulary=VOCABULARY, character_vocabulary=CODEPOINTS)
        inputs = word_indexer.index(["antidisestablish", "antidisestablishment", "antidis"])
        assert inputs.word_ids is not None
        assert inputs.character_ids is not None
        assert inputs.word_ids.tolist() == [4, 4, 2]
        assert inputs.character_ids.shape == (3, 18)

    def test_a_word_model_without_characters_cuts_nothing(self) -> None:
        inputs = WordIndexer(WORDS_ONLY, vocabulary=VOCABULARY).index(["antidisestablishment"])
        assert inputs.word_ids is not None
        assert inputs.word_ids.tolist() == [2]

    def test_no_words_are_numbers_all_the_same(self) -> None:
        inputs = WordIndexer(MANY_LANGUAGES, vocabulary=VOCABULARY, character_vocabulary=CODEPOINTS).index([])
        assert inputs.word_ids is not None
        assert inputs.character_ids is not None
        assert (inputs.word_ids.dtype, inputs.word_ids.shape) == (np.int64, (0,))
        assert (inputs.character_ids.dtype, inputs.character_ids.shape) == (np.int64, (0, 18))

    def test_an_unknown_word_without_a_stand_in_is_named(self) -> None:
        word_indexer = WordIndexer(WORDS_ONLY, vocabulary=Vocabulary(["<S>", "</S>"]))
        with pytest.raises(InputError, match="'zebra'"):
            word_indexer.index(["zebra"])

    def test_a_word_model_asks_for_its_vocabulary(self) -> None:
        with pytest.raises(FormatError, match="vocabulary is missing"):
            WordIndexer(WORDS_ONLY)

    def test_a_code_point_model_asks_for_its_characters(self) -> None:
        with pytest.raises(FormatError, match="table of characters is missing"):
            WordIndexer(MANY_LANGUAGES, vocabulary=VOCABULARY)

    def test_a_table_without_marks_is_refused_by_their_names(self) -> None:
        table = {letter: number for letter, number in CODEPOINTS.items() if letter not in ("<pad>", "<eow>")}
        with pytest.raises(FormatError, match="lacks <pad>, <eow>"):
            WordIndexer(MANY_LANGUAGES, vocabulary=VOCABULARY, character_vocabulary=table)

    @pytest.mark.parametrize("number", [-1, len(CODEPOINTS)])
    def test_a_number_without_a_row_is_refused_with_its_letter(self, number: int) -> None:
        with pytest.raises(FormatError, match=f"'c' the number {number}"):
            WordIndexer(MANY_LANGUAGES, vocabulary=VOCABULARY, character_vocabulary=CODEPOINTS | {"c": number})


def test_selecting_words_keeps_both_parts_together() -> None:
    inputs = WordIds(np.arange(12).reshape(4, 3), np.array([7, 8, 9, 10]))
    chosen = inputs.select(np.array([2, 0]))
    assert chosen.character_ids is not None
    assert chosen.word_ids is not None
    assert chosen.character_ids.tolist() == [[6, 7, 8], [0, 1, 2]]
    assert chosen.word_ids.tolist() == [9, 7]
    assert WordIds(None, inputs.word_ids).select(np.array([1])).character_ids is None
