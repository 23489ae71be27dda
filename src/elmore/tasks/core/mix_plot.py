"""Plot the mix weights of a biLM's layers as bars, as in Figure 2 of the paper."""

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

# Distinguishable with color blindness and in gray print (Paul Tol's color schemes).
LAYER_COLORS = ("#bbccee", "#4477aa", "#222255", "#aa3377", "#cc6677", "#ccbb44")
STYLE: dict[Any, Any] = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
PANEL = (3.6, 2.8)  # inches
LABEL_WIDTH = 14  # characters; a longer label would overlap the label of the next group


def draw_mixes(mixes: Mapping[str, Sequence[tuple[float, ...]]], picture: Path) -> None:
    """Plot mix weights into a file. The keys of `mixes` are labels; each value has the weights of one or more seeds."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("the plot of a mix", library="matplotlib", extra="plots") from None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(max(PANEL[0], 1.1 + 1.1 * len(mixes)), PANEL[1]), layout="constrained")
        plot_mixes(figure.subplots(), mixes)
        with atomic_write(picture) as unfinished:
            figure.savefig(unfinished, dpi=200)


def plot_mixes(axes: "Axes", mixes: Mapping[str, Sequence[tuple[float, ...]]]) -> None:
    """Figure 2 of the paper: the trained weights of the layers as bars, by the position where ELMo enters."""
    # BiLMs may have different numbers of layers.
    counts = [len(seeds[0]) for seeds in mixes.values()]
    layers = max(counts)
    width = 0.8 / layers
    for layer in range(layers):
        weights = [[seed[layer] for seed in seeds] for seeds in mixes.values() if layer < len(seeds[0])]
        positions = [group + (layer - (count - 1) / 2) * width for group, count in enumerate(counts) if layer < count]
        label = "h0, context-free" if layer == 0 else f"h{layer}"
        axes.bar(
            positions,
            [mean(values) for values in weights],
            width=0.92 * width,
            # No error bar for a single seed.
            yerr=[stdev(values) if len(values) > 1 else nan for values in weights],
            color=LAYER_COLORS[layer % len(LAYER_COLORS)],
            label=label,
            error_kw={"elinewidth": 0.8, "capsize": 2},
        )
    for group, count in enumerate(counts):
        axes.hlines(1 / count, group - 0.5, group + 0.5, color="black", linewidth=0.8, linestyle=":")
    axes.set_xticks(range(len(mixes)), [wrapped(label) for label in mixes])
    axes.set(ylabel="weight in the mix", ylim=(0, None))
    axes.margins(y=0.25)
    axes.tick_params(axis="x", length=0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=layers)


def wrapped(label: str) -> str:
    """A label with line breaks, not wider than its bars. Line breaks of the label are unchanged.

    >>> wrapped("ELMo without GloVe").splitlines()
    ['ELMo without', 'GloVe']
    """
    lines = label.replace(" lambda", "\nlambda").split("\n")
    return "\n".join(part for line in lines for part in wrap(line, LABEL_WIDTH, break_on_hyphens=False))
