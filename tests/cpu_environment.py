"""The environment for programs that a test starts: a command or an `Embedder` would take a GPU if it saw one."""

import os

ON_THE_CPU = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
