from itertools import pairwise
from statistics import stdev

import numpy as np
import pytest

from elmore.tasks.core.mix_plot import draw_mixes, plot_mixes


@pytest.fixture
def figure():
    from matplotlib.figure import Figure

    return Figure()


def test_mixes_of_biLMs_with_more_and_fewer_layers_are_drawn_together(figure):
    axes = figure.subplots()
    plot_mixes(axes, {"three": [(0.2, 0.5, 0.3)], "two": [(0.4, 0.6)]})
    assert [bar.get_height() for bar in axes.patches] == [0.2, 0.4, 0.5, 0.6, 0.3]
    middles = [round(bar.get_x() + bar.get_width() / 2, 3) for bar in axes.patches]
    assert middles == [-0.267, 0.867, 0.0, 1.133, 0.267]  # each group about its own middle


def test_a_spread_is_drawn_where_there_are_several_seeds(figure):
    from matplotlib.container import BarContainer

    axes = figure.subplots()
    plot_mixes(axes, {"one seed": [(0.2, 0.8)], "two seeds": [(0.4, 0.6), (0.6, 0.4)]})
    spreads = [bars.errorbar for bars in axes.containers if isinstance(bars, BarContainer)]
    assert len(spreads) == 2  # of each layer
    for _, _, (lines,) in spreads:
        (segment,) = [one for one in lines.get_segments() if len(one)]
        assert np.ptp(segment[:, 1]) == pytest.approx(2 * stdev([0.4, 0.6]))


def test_labels_of_neighbours_do_not_run_into_each_other():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = ("with ELMo one unknown penalty", "biLM fine-tuned on the task's text", "layers=all lambda=0.001")
    figure = Figure(figsize=(1.1 + 1.1 * len(names), 2.8), layout="constrained")  # as draw_mixes has it
    axes = figure.subplots()
    plot_mixes(axes, {f"{name}\nat the output": [(0.2, 0.5, 0.3)] for name in names})
    FigureCanvasAgg(figure).draw()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_the_mix_of_one_training_is_drawn_into_a_file(tmp_path):
    draw_mixes({"at the input": [(0.2, 0.5, 0.3)], "at the output": [(0.6, 0.2, 0.2)]}, tmp_path / "mix.png")
    assert (tmp_path / "mix.png").read_bytes().startswith(b"\x89PNG")
