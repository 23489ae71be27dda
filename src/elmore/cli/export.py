"""`elmore export`: an ONNX file for programs without Elmore."""

from pathlib import Path

from elmore.cli.command import FILE, command, force_option, option
from elmore.cli.options import ModelOptions, model_argument
from elmore.cli.output import Verbosity
from elmore.errors import InputError


@command()
@model_argument
@option(
    "--output",
    "-o",
    type=FILE,
    required=True,
    metavar="FILE",
    help="The file to write; its name ends in .onnx.",
)
@force_option
def export(verbosity: Verbosity, model: ModelOptions, *, output: Path, force: bool) -> None:
    """Write MODEL as an ONNX file, for Java, C# or a browser.

    The input of the graph are ids of words, the output are layers. The file's metadata describe how words become ids.
    """
    if output.suffix.lower() != ".onnx":
        raise InputError(f"{output}: the format is ONNX; choose a name that ends in .onnx")

    from elmore.files.output_paths import check_output
    from elmore.integrations.onnx import export_onnx

    check_output(output, inputs=model.inputs, force=force)
    export_onnx(model.load(), output, force=force)
    verbosity.info(f"wrote {output}")
