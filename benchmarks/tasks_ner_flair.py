"""flair's taggers of names with random weights, of the sizes of Elmore's, for `tasks.py prediction`.

    python benchmarks/tasks_ner_flair.py FOLDER BATCH_SIZE

Needs flair and not Elmore. FOLDER has what `tasks_ner_elmore.py` wrote there. Turns and answers are as in that file.
The sentences are flair's own objects before the clock starts.
"""

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import torch

SURE = 20.0  # as in Elmore's taggers: no names are found
DIM, HIDDEN, LAYERS = 100, 200, 2


def main(folder: Path, batch_size: int) -> None:
    import flair
    from flair.data import Dictionary, Sentence
    from flair.embeddings import CharacterEmbeddings, WordEmbeddings

    logging.getLogger("flair").setLevel(logging.ERROR)  # it would speak where answers are read
    flair.device = torch.device("cpu")
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    words = WordEmbeddings(
        None, vocab={word: n for n, word in enumerate(about["words"])}, embedding_length=DIM, name="words"
    )
    torch.nn.init.normal_(words.embedding.weight)
    spelling = Dictionary()
    for character in about["characters"]:
        spelling.add_item(character)
    characters = CharacterEmbeddings(spelling)
    taggers = {
        "words": tagger([words], about["kinds"]),
        "characters": tagger([words, characters], about["kinds"]),
    }
    sentences = [Sentence(tokens) for tokens in about["sentences"]]
    tags = len(taggers["words"].label_dictionary) - 2  # less start and stop
    answer(flair=flair.__version__, tags=tags, taggers=list(taggers))
    answer(ready=True)
    for line in sys.stdin:
        turn = json.loads(line)
        torch.set_num_threads(turn["threads"])
        began, spent = time.perf_counter(), time.process_time()
        taggers[turn["tagger"]].predict(sentences, mini_batch_size=batch_size)
        seconds, processor = time.perf_counter() - began, time.process_time() - spent
        answer(
            seconds=seconds, processor=processor, names=sum(len(sentence.get_spans("ner")) for sentence in sentences)
        )


def tagger(embeddings: list[Any], kinds: list[str]) -> Any:
    from flair.data import Dictionary
    from flair.embeddings import StackedEmbeddings
    from flair.models import SequenceTagger

    names = Dictionary(add_unk=False)
    names.span_labels = True
    for kind in kinds:
        names.add_item(kind)
    made = SequenceTagger(
        StackedEmbeddings(embeddings),
        names,
        tag_type="ner",
        hidden_size=HIDDEN,
        rnn_layers=LAYERS,
        use_crf=True,
        reproject_embeddings=False,  # a layer that Elmore's taggers do not have
    )
    with torch.no_grad():
        made.linear.bias[made.label_dictionary.get_idx_for_item("O")] = SURE
    return made.eval()


def answer(**values: Any) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
