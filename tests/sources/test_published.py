"""The table of published models, against what their publishers list."""

import re

from elmore.sources.published import PUBLISHED, SHA256


def test_the_four_english_models_have_the_addresses_of_their_authors():
    assert PUBLISHED["original-5.5B"] == (
        "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/"
        "elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5"
    )
    assert [name for name in PUBLISHED if not name.startswith("efml-")] == [
        "small",
        "medium",
        "original",
        "original-5.5B",
    ]


def test_the_languages_have_the_numbers_of_the_nlpl_repository():
    # From the table in the README of ELMoForManyLangs.
    numbers = {"ar": 136, "en": 144, "fr": 150, "grc": 153, "nl": 164, "nb": 165, "pt": 168, "ru": 170, "zh": 179}
    for code, number in numbers.items():
        assert PUBLISHED[f"efml-{code}"] == f"https://vectors.nlpl.eu/repository/11/{number}.zip"
    assert len([name for name in PUBLISHED if name.startswith("efml-")]) == 44


def test_every_address_is_encrypted_and_every_digest_belongs_to_one():
    assert all(address.startswith("https://") for address in PUBLISHED.values())
    assert SHA256.keys() <= set(PUBLISHED.values())
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in SHA256.values())
