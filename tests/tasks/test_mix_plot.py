import pytest

from elmore.tasks.mix_plot import draw_mixes, plot_mixes


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


def test_the_mix_of_one_training_is_drawn_into_a_file(tmp_path):
    draw_mixes({"at the input": [(0.2, 0.5, 0.3)], "at the output": [(0.6, 0.2, 0.2)]}, tmp_path / "mix.png")
    assert (tmp_path / "mix.png").read_bytes().startswith(b"\x89PNG")
