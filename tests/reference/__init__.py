"""The ELMo network in plain NumPy and float64: the truth the tests compare with.

Written from the description of the published models (`formats.md` in the folder `shared`; section numbers in these
files are those of that text), and from nothing else: it shares no line and no structure with the package. It reads one
sentence after the other, one position after the other, so that every formula can be found again. Speed is no aim.

    network.py         the LSTM stack, its state, and the rows that the original programs carry from call to call
    published.py       models of options.json and weights.hdf5: ids, character CNN, names of datasets
    many_languages.py  models of ELMoForManyLangs: ids, word and character vectors, names of tensors
    mixing.py          weighted sums of layers, with and without the normalisation over a batch
    random_models.py   small random models in both published layouts, for tests that need no file

`twin.py` and `strategies.py` stand apart: they know the package, and serve the property tests.
"""

from reference.many_languages import ManyLanguagesModel, read_many_languages
from reference.mixing import masked_batch_norm, mix
from reference.network import Array, CarriedRows, Network, RowState
from reference.published import PublishedModel, read_published

__all__ = [
    "Array",
    "CarriedRows",
    "ManyLanguagesModel",
    "Network",
    "PublishedModel",
    "RowState",
    "masked_batch_norm",
    "mix",
    "read_many_languages",
    "read_published",
]
