"""The addresses of the published models that have a name, and the SHA-256 of their files where it is known.

A model of two files has the address of its weights; the options file is next to it under the matching name. The
publishers give no checksums. The digests of `small` and `original` are from Git LFS pointers to these files, which also
record their sizes (54,402,456 and 374,434,792 bytes); the other digests could not be found. The download of a file
without a known digest is reported as not verified.
"""

# English, by the authors of the paper; as listed on allennlp.org/elmo.
_AI2 = "https://allennlp.s3.amazonaws.com/models/elmo/{0}/elmo_{0}_weights.hdf5"

# ELMoForManyLangs; its README gives each language a number in the NLPL repository, 136 to 179 in this order. The
# Chinese is the traditional one.
_EFML = "https://vectors.nlpl.eu/repository/11/{}.zip"
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

SHA256 = {
    PUBLISHED["small"]: "747ba97abce8a5f446558369e10bb0f7931437a46867476fdd156f5d7f576229",
    PUBLISHED["original"]: "a6b92b9ccbb13fe489faacd2221c795d4bebe84b75f8aded9d85ea464fa5c994",
}
