"""simple_elmo, ELMo by TensorFlow, in turns with others, for `embed_cpu.py`.

    python benchmarks/embed_cpu_simple_elmo.py TEXT MODEL THREADS

Needs simple_elmo and TensorFlow. Its public call is what is timed, with a session that stays open from call to call, as
it allows: without one it would build its graph anew for each.
"""

import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from embed_cpu_turns import Batch, serve

LARGEST_BATCH = 32


def main(text: Path, model: Path, threads: int) -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf
    from simple_elmo import ElmoModel
    from simple_elmo.elmo import weight_layers

    elmo = ElmoModel()
    logging.disable(logging.INFO)  # a line for each batch
    elmo.load(str(model), max_batch_size=LARGEST_BATCH)
    wanted = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    session = tf.compat.v1.Session(config=wanted)
    # What its call does with a session of its own, once and not in every call.
    with session.as_default():
        elmo.elmo_sentence_input = weight_layers("input", elmo.sentence_embeddings_op, use_layers="all")
        session.run(tf.compat.v1.global_variables_initializer())

    def read(batch: Batch) -> list[Any]:
        vectors = elmo.get_elmo_vectors(batch, warmup=False, layers="all", session=session)
        return [own[:, : len(sentence)] for own, sentence in zip(vectors, batch, strict=True)]

    serve(text, read, simple_elmo=version("simple_elmo"), tensorflow=tf.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
