"""The published models that can be asked for by name, and where they lie.

A pair is written as the address of its weights; the options file lies beside it under the matching name. Nobody has
published checksums of these files, so what is fetched is held to its length only, and from then on to its own digest.
"""

# English, by the authors of the paper; as listed on allennlp.org/elmo.
_AI2 = "https://allennlp.s3.amazonaws.com/models/elmo/{0}/elmo_{0}_weights.hdf5"

# ELMoForManyLangs; its README gives each language a number in the NLPL repository, 136 to 179 in this order. The
# Chinese is the traditional one.
_EFML = "http://vectors.nlpl.eu/repository/11/{}.zip"
_EFML_LANGUAGES = (
    "ar bg ca cs cu da de el en es et eu fa fi fr ga gl grc he hi hr hu "
    "id it ja ko la lv nl nb nn pl pt ro ru sk sl sv tr ug uk ur vi zh"
)

PUBLISHED = {
    "small": _AI2.format("2x1024_128_2048cnn_1xhighway"),
    "medium": _AI2.format("2x2048_256_2048cnn_1xhighway"),
    "original": _AI2.format("2x4096_512_2048cnn_2xhighway"),
    "original-5.5B": _AI2.format("2x4096_512_2048cnn_2xhighway_5.5B"),
    **{f"efml-{code}": _EFML.format(number) for number, code in enumerate(_EFML_LANGUAGES.split(), start=136)},
}
