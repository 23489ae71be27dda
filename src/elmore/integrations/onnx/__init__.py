"""Export a model to one ONNX file, which onnxruntime runs in Java, C# or a browser, without Elmore and torch.

>>> import tempfile
>>> from elmore import load
>>> path = f"{tempfile.mkdtemp()}/model.onnx"
>>> export_onnx(load("tiny-random"), path)
"""

from elmore.integrations.onnx.export import export_onnx

__all__ = ["export_onnx"]
