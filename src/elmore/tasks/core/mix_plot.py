"""The weights that a task gives the layers of a biLM, drawn as bars: Figure 2 of the paper."""

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from statistics import mean, stdev
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from elmore.errors import MissingExtra
from elmore.files.atomic_files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart by those who see colours otherwise, and in print without colour (Paul Tol's).
LAYER_COLORS = ("#bbccee", "#4477aa", "#222255", "#aa3377", "#cc6677", "#ccbb44")
STYLE: dict[Any, Any] = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
PANEL = (3.6, 2.8)  # inches
LABEL_WIDTH = 14  # characters; more would run into the label of the next group


def draw_mixes(mixes: Mapping[str, Sequence[tuple[float, ...]]], picture: Path) -> None:
    """Draw the weights that one or several seeds learnt, by whatever they are named after, into a file."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("the picture of a mix", library="matplotlib", extra="plots") from None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(max(PANEL[0], 1.1 + 1.1 * len(mixes)), PANEL[1]), layout="constrained")
        plot_mixes(figure.subplots(), mixes)
        with atomic_write(picture) as unfinished:
            figure.savefig(unfinished, dpi=200)


def plot_mixes(axes: "Axes", mixes: Mapping[str, Sequence[tuple[float, ...]]]) -> None:
    """Figure 2 of the paper: the learned weights of the layers, by the place where ELMo enters, as bars."""
    # A biLM may have more layers than another.
    counts = [len(seeds[0]) for seeds in mixes.values()]
    layers = max(counts)
    width = 0.8 / layers
    for layer in range(layers):
        weights = [[seed[layer] for seed in seeds] for seeds in mixes.values() if layer < len(seeds[0])]
        places = [group + (layer - (own - 1) / 2) * width for group, own in enumerate(counts) if layer < own]
        label = "h0, context-free" if layer == 0 else f"h{layer}"
        axes.bar(
            places,
            [mean(one) for one in weights],
            width=0.92 * width,
            # One seed has no spread, which is not a spread of nothing.
            yerr=[stdev(one) if len(one) > 1 else nan for one in weights],
            color=LAYER_COLORS[layer % len(LAYER_COLORS)],
            label=label,
            error_kw={"elinewidth": 0.8, "capsize": 2},
        )
    for group, own in enumerate(counts):
        axes.hlines(1 / own, group - 0.5, group + 0.5, color="black", linewidth=0.8, linestyle=":")
    axes.set_xticks(range(len(mixes)), [wrapped(label) for label in mixes])
    axes.set(ylabel="weight in the mix", ylim=(0, None))
    axes.margins(y=0.25)
    axes.tick_params(axis="x", length=0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=layers)


def wrapped(label: str) -> str:
    """A label in lines that are no wider than its bars; its own ends of lines stay.

    >>> wrapped("ELMo without GloVe").splitlines()
    ['ELMo without', 'GloVe']
    """
    lines = label.replace(" lambda", "\nlambda").split("\n")
    return "\n".join(short for line in lines for short in wrap(line, LABEL_WIDTH, break_on_hyphens=False))
