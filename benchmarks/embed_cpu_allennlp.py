"""AllenNLP's ELMo in turns with others, for `embed_cpu.py`.

    python benchmarks/embed_cpu_allennlp.py TEXT MODEL THREADS

Needs allennlp, installed without its dependencies, torch and h5py. The biLM, its LSTM and its character CNN are
AllenNLP's own files. What they import of the rest of AllenNLP, and with it spaCy, transformers and a dozen more, is
replaced by the few names they use; so are its instances, fields and batches, whose cost is therefore left out.
"""

import sys
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from embed_cpu_turns import Batch, serve


class Nameless:
    """Stands for a class that is only named, or inherited from, while ELMo's files are imported."""

    def __init__(self, *_: object) -> None: ...

    @classmethod
    def register(cls, _: str) -> Any:
        return lambda other: other


def groups(iterator: Any, size: int) -> Any:
    while group := list(islice(iterator, size)):
        yield group


REPLACED: dict[str, dict[str, Any]] = {
    "common": {"FromParams": Nameless},
    "common.file_utils": {"cached_path": lambda path: path},
    "common.util": {
        "lazy_groups_of": groups,
        "pad_sequence_to_length": None,
        "int_to_device": torch.device,
        "is_distributed": lambda: False,
        "is_global_primary": lambda: True,
    },
    "data": {},
    "data.instance": {"Instance": Nameless},
    "data.tokenizers": {"Token": Nameless},
    "data.tokenizers.token_class": {"Token": Nameless},
    "data.vocabulary": {"Vocabulary": Nameless},
    "data.batch": {"Batch": Nameless},
    "data.fields": {"TextField": Nameless},
    "data.token_indexers": {},
    "data.token_indexers.token_indexer": {"TokenIndexer": Nameless, "IndexedTokenList": dict},
    "modules": {},
    "nn": {},
    "nn.initializers": {"block_orthogonal": lambda *_: None},  # first values, which those of the file replace
}


def import_elmo() -> None:
    """Make `allennlp.modules.elmo` importable, with nothing of AllenNLP but the files that ELMo is written in."""
    found = find_spec("allennlp")
    assert found is not None
    assert found.submodule_search_locations is not None
    [home] = found.submodule_search_locations
    for name, values in {"": {}, **REPLACED}.items():
        module = ModuleType(".".join(filter(None, ["allennlp", name])))
        module.__path__ = [str(Path(home, *name.split(".")))]
        module.__dict__.update(values)
        sys.modules[module.__name__] = module


def main(text: Path, model: Path, threads: int) -> None:
    torch.set_num_threads(threads)
    import_elmo()
    from allennlp.data.token_indexers.elmo_indexer import ELMoCharacterMapper
    from allennlp.modules.elmo import _ElmoBiLm
    from allennlp.nn.util import remove_sentence_boundaries

    mapper = ELMoCharacterMapper()
    bilm = _ElmoBiLm(str(model / "options.json"), str(model / "weights.hdf5")).eval()

    def read(batch: Batch) -> list[Any]:
        longest = max(map(len, batch))
        padding = [[0] * mapper.max_word_length]
        with torch.no_grad():
            characters = torch.tensor(
                [
                    [mapper.convert_word_to_char_ids(word) for word in sentence] + padding * (longest - len(sentence))
                    for sentence in batch
                ]
            )
            found = bilm(characters)
            # As AllenNLP's own `elmo` command took them out: without boundaries, an array for each sentence.
            layers = [remove_sentence_boundaries(layer, found["mask"])[0] for layer in found["activations"]]
            stacked = torch.stack(layers, dim=1)
            return [stacked[row, :, : len(sentence)].numpy() for row, sentence in enumerate(batch)]

    serve(text, read, allennlp=version("allennlp"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
