"""Write what was measured into the pages: tables, and figures in sentences, from the files that keep them.

    python benchmarks/figures.py

A table stands in its page between `<!-- table: NAME -->` and `<!-- end -->`; a figure stands in its sentence, where
`SENTENCES` has a gap. Nothing else is touched. `benchmarks/README.md` tells which script measures what, and
`tests/test_figures.py` that no page says anything else than the files.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ablation_figures
import cold_start_figures
import elmore_en_figures as elmore_en
import embed_cpu_figures
import embed_gpu_figures
import embed_growth_figures
import kernel_figures as kernels
import overlap_figures
import parallel_training_figures
import pos_tagger_figures as pos_tagger
import pretrain_figures as pretraining
import results_page_figures
import task_comparison_figures
import tasks_figures
import tokenizer_figures
import word_senses_figures
import write_vectors_figures
from kept_results import constant, in_words, read

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    for page in pages():
        path = ROOT / page
        path.write_text(with_figures(page, path.read_text(encoding="utf-8")), encoding="utf-8")


def pages() -> list[str]:
    """Every page that shows something measured."""
    return sorted({page for page, _ in (*TABLES, *SENTENCES)})


def with_figures(page: str, text: str) -> str:
    """The text of a page with its tables and figures as the kept files have them."""
    for (where, name), make in TABLES.items():
        if where == page:
            made = make()
            block = f"<!-- table: {name} -->\n" + (f"\n{made}\n\n" if made else "") + "<!-- end -->"
            text = _replaced(page, text, rf"<!-- table: {name} -->\n.*?<!-- end -->", lambda _, block=block: block)
    for (where, sentence), figures in SENTENCES.items():
        if where == page:
            parts = [re.escape(part).replace(r"\ ", r"\s+") for part in sentence.split("{}")]
            values = figures()
            pattern = r"[\w.,-]*\w".join(f"({part})" for part in parts)
            text = _replaced(page, text, pattern, lambda found, values=values: _filled(found.groups(), values))
    return text


def _replaced(page: str, text: str, pattern: str, by: Callable[[re.Match[str]], str]) -> str:
    text, found = re.subn(pattern, by, text, flags=re.DOTALL)
    if found != 1:
        raise SystemExit(f"{page}: {found} places look like {pattern}; one must")
    return text


def _filled(parts: Sequence[str | Any], values: Sequence[str]) -> str:
    return "".join(part + value for part, value in zip(parts, (*values, ""), strict=True))


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    ("README.md", "parity"): kernels.parity_summary,
    ("docs/migrating.md", "parity"): kernels.parity,
    ("docs/layers.md", "equality"): kernels.equality,
    ("docs/comparing.md", "example"): partial(task_comparison_figures.comparison, "wnut17"),
    ("benchmarks/NOTES.md", "native-recurrence"): kernels.native_recurrence,
    ("benchmarks/NOTES.md", "native-words"): kernels.native_words,
    ("README.md", "speed"): embed_cpu_figures.shown_summary,
    ("docs/performance.md", "speed"): embed_cpu_figures.shown_summary,
    ("docs/performance.md", "latency"): embed_cpu_figures.shown_latency,
    ("docs/performance.md", "memory"): embed_cpu_figures.shown_peak,
    ("docs/performance.md", "gpu"): embed_gpu_figures.shown_summary,
    ("benchmarks/NOTES.md", "embed-cpu-ratios"): embed_cpu_figures.shown_ratios,
    ("benchmarks/NOTES.md", "embed-cpu-rates"): embed_cpu_figures.shown_rates,
    ("benchmarks/NOTES.md", "embed-cpu-busy"): embed_cpu_figures.shown_busy,
    ("benchmarks/NOTES.md", "embed-cpu-sentences"): embed_cpu_figures.shown_sentences,
    ("benchmarks/NOTES.md", "embed-cpu-memory"): embed_cpu_figures.shown_memory,
    ("benchmarks/NOTES.md", "embed-growth"): embed_growth_figures.shown,
    ("benchmarks/NOTES.md", "embed-gpu-rates"): embed_gpu_figures.shown_rates,
    ("benchmarks/NOTES.md", "embed-gpu-beside"): embed_gpu_figures.shown_beside,
    ("benchmarks/NOTES.md", "embed-gpu-file"): embed_gpu_figures.shown_file,
    ("docs/performance.md", "embed-gpu-alone"): embed_gpu_figures.shown_alone,
    ("docs/performance.md", "cold-start"): cold_start_figures.shown,
    ("docs/performance.md", "write-vectors"): write_vectors_figures.shown,
    ("docs/performance.md", "compute-error"): kernels.compute_error,
    ("docs/pretraining.md", "pretrain"): pretraining.pretrain,
    ("docs/pretraining.md", "pretrain-profile"): pretraining.pretrain_profile,
    ("docs/pretraining.md", "pretrain-cpu"): pretraining.pretrain_cpu,
    ("docs/tasks/speed.md", "training-speed"): tasks_figures.training,
    ("docs/threads.md", "parallel-training"): parallel_training_figures.shown,
    ("docs/tasks/speed.md", "prediction-rates"): tasks_figures.rates,
    ("docs/tasks/speed.md", "prediction-speed"): tasks_figures.prediction,
    ("experiments/elmore-en/README.md", "epochs"): elmore_en.epochs,
    ("experiments/elmore-en/README.md", "texts"): elmore_en.texts,
    ("experiments/elmore-en/README.md", "int8"): elmore_en.int8,
    ("experiments/elmore-en/README.md", "start-state"): elmore_en.start_state,
    ("docs/pretraining.md", "printed-lines"): elmore_en.printed_lines,
    ("experiments/overlap/README.md", "sets"): overlap_figures.sets,
    **{
        ("experiments/tasks/README.md", name): partial(task_comparison_figures.comparison, name)
        for name in task_comparison_figures.NAMES
    },
    ("experiments/tasks/README.md", "not-trained"): task_comparison_figures.not_trained,
    **{
        ("docs/results.md", name): make
        for name, make in {
            "summary": results_page_figures.summary,
            "error-reductions": results_page_figures.error_reductions,
            "answers": results_page_figures.answers,
            "coreference": results_page_figures.coreference,
            "published": results_page_figures.published,
            "layers": results_page_figures.layers,
            "places": results_page_figures.places,
            "subword": results_page_figures.subword,
            "gamma": results_page_figures.gamma,
            "fractions": results_page_figures.fractions,
            "epochs": results_page_figures.epochs,
            "perplexities": results_page_figures.perplexities,
            "fine-tuned": results_page_figures.fine_tuned,
            "mixes": results_page_figures.mixes,
            "senses": results_page_figures.senses,
            "tags": results_page_figures.tags,
            "ablations": ablation_figures.pretraining,
            "ablations-tagging": partial(ablation_figures.comparison, "ewt-upos"),
            "ablations-sentiment": partial(ablation_figures.comparison, "sst"),
            "overlap": overlap_figures.short,
        }.items()
    },
    ("experiments/ablations/README.md", "pretraining"): ablation_figures.pretraining,
    ("experiments/ablations/README.md", "ewt-upos"): partial(ablation_figures.comparison, "ewt-upos"),
    ("experiments/ablations/README.md", "sst"): partial(ablation_figures.comparison, "sst"),
    ("experiments/fine-tuning/README.md", "perplexities"): results_page_figures.perplexities,
    ("experiments/tokenizer/README.md", "texts"): tokenizer_figures.texts,
    ("experiments/word-senses/README.md", "senses"): word_senses_figures.senses,
    ("experiments/word-senses/README.md", "pairs"): word_senses_figures.pairs,
}


SENTENCES: dict[tuple[str, str], Callable[[], list[str]]] = {
    (
        "README.md",
        "the same call gives the same bits, and another batch differs by up to {} ([measured]",
    ): kernels.largest_difference,
    (
        "examples/demo.py",
        "Of all sizes and batches that were measured, up to {} (docs/layers.md)",
    ): kernels.largest_difference,
    (
        "src/elmore/embedding/embedder.py",
        "the same call gives the same bits, and another batch differs by up to {} in float32 (measured",
    ): kernels.largest_difference,
    ("README.md", "`elmore-en` has {} million parameters"): lambda: [elmore_en.parameters()],
    ("README.md", "was trained on {} million words of openly licensed English"): lambda: [elmore_en.million_words()],
    ("README.md", "in {} minutes on one H200"): lambda: [elmore_en.minutes()],
    ("README.md", "With its softmax over {} words"): lambda: [elmore_en.softmax_words()],
    ("README.md", "it takes {} MB"): lambda: [elmore_en.megabytes(0)],
    ("README.md", "The included tagger is {} % right on the test part"): pos_tagger.accuracy,
    (
        "experiments/pos-tagger/README.md",
        "**Answer.** One of {} MB that is {} % right on the test set",
    ): pos_tagger.answer,
    ("experiments/pos-tagger/README.md", "{} of the {} tags of the test set are others"): pos_tagger.rounding,
    ("README.md", "perplexity is {} on Wikipedia articles"): lambda: [elmore_en.perplexity("own-wikipedia")],
    ("README.md", "{} on the shuffled sentences of the One Billion Word benchmark ({} each by itself)"): lambda: [
        elmore_en.perplexity("1b-heldout-dev"),
        elmore_en.perplexity("1b-heldout-dev", by_sentence=True),
    ],
    ("CHANGELOG.md", "an English model of {} MB"): lambda: [elmore_en.megabytes(0)],
    (
        "benchmarks/NOTES.md",
        "the {} size in {} on {} threads, medians of {} rounds",
    ): embed_growth_figures.conditions,
    ("docs/pretraining.md", "Medians of {} rounds"): pretraining.rounds,
    (
        "docs/pretraining.md",
        "Adagrad, {} rows, {} of {} classes, {} threads; medians of {} rounds",
    ): pretraining.cpu_training,
    (
        "docs/pretraining.md",
        "Of the {} positions in both directions {} hold distinct words",
    ): pretraining.distinct_words,
    (
        "docs/tasks/speed.md",
        "{} sentences of WikiNEuRal, {} tokens, medians of {} rounds in turns",
    ): tasks_figures.prediction_sizes,
    (
        "docs/tasks/speed.md",
        "are {} times as fast as cuDNN's on {} texts of up to {} tokens",
    ): tasks_figures.gru_speed,
    (
        "docs/performance.md",
        "{} sentences of SemCor, and the perplexity of {} sentences of held-out Wikipedia",
    ): kernels.compute_error_sizes,
    (
        "docs/text.md",
        "tokenizes {} words of English per second, {} times as many as with sacremoses; "
        "splitting, tokenization and numbering by `elmore prepare` are {} times as fast. "
        "The first sentence in a new process takes {} ms instead of {} ms",
    ): tokenizer_figures.speed,
    ("docs/text.md", "with an F1 of {} % on its dev and {} % on its test part"): tokenizer_figures.ud_f1,
    ("docs/text.md", "To check the conversion, {} sentences"): tokenizer_figures.converted_sentences,
    (
        "docs/text.md",
        "`penn` {} %, `nltk` {} %, `plain` {} %, `ud` {} %. The others",
    ): tokenizer_figures.converted_shares,
    (
        "experiments/word-senses/README.md",
        "the upper layer has {} F1, the lower {}\nand WordNet's first sense {} (the paper",
    ): word_senses_figures.answer,
    ("experiments/word-senses/README.md", "layer tells best too, {} % to {} %."): word_senses_figures.pair_accuracies,
    ("src/elmore/models/LICENSE.md", "on {} million words"): lambda: [elmore_en.million_words()],
    ("experiments/elmore-en/about.toml", "English, {} million parameters, trained from scratch on {} million words"): (
        lambda: [elmore_en.parameters(), elmore_en.million_words()]
    ),
    ("experiments/elmore-en/README.md", "The medium size ({} million parameters)"): lambda: [elmore_en.parameters()],
    ("experiments/elmore-en/README.md", "a softmax over {} words, stored as int8: {} MB"): lambda: [
        elmore_en.softmax_words(),
        elmore_en.megabytes(1),
    ],
    (
        "experiments/elmore-en/README.md",
        "{} epochs over {} million words took {} minutes",
    ): elmore_en.training_sizes,
    ("experiments/elmore-en/README.md", "The text is {} million words in {} files"): lambda: [
        elmore_en.million_words(1),
        str(len(read(elmore_en.SHIPPED / "card.json")["extra"]["training"]["corpus"]["inputs"])),
    ],
    ("experiments/elmore-en/README.md", "the mean of the states after {} sentences"): elmore_en.warm_sentences,
    (
        "experiments/elmore-en/README.md",
        "The median norm is {}, and {} % of them lie above {}",
    ): elmore_en.gradient_norms,
    ("experiments/elmore-en/README.md", "has the norm of the gradients every {} steps"): elmore_en.logged_every,
    (
        "experiments/elmore-en/README.md",
        "{} epochs, rate {}, clip {} | the one that is shipped",
    ): elmore_en.shipped_settings,
    (
        "experiments/elmore-en/about.toml",
        "{} epochs, rate {}, clip {}, below the usual norm",
    ): elmore_en.shipped_settings,
    ("experiments/elmore-en/README.md", "on {} sentences of each text"): lambda: [
        constant(elmore_en.EXPERIMENT / "start_state.py", "SENTENCES")
    ],
    ("experiments/elmore-en/README.md", "that is best on {} training pairs"): lambda: [
        constant(elmore_en.EXPERIMENT / "start_state.py", "PAIRS")
    ],
    ("experiments/elmore-en/README.md", "{} paragraphs of each source"): lambda: [
        in_words(int(constant(elmore_en.EXPERIMENT / "warm_text.py", "PARAGRAPHS")))
    ],
    ("src/elmore/recipes/pretraining/elmore-en.toml", "on openly licensed text, {} minutes on one H200"): lambda: [
        elmore_en.minutes()
    ],
    ("src/elmore/recipes/pretraining/elmore-en.toml", "the median norm of the gradients, {},"): lambda: (
        elmore_en.gradient_norms()[:1]
    ),
    ("src/elmore/recipes/pretraining/small.toml", "# {} million parameters"): lambda: [elmore_en.parameters("small")],
    ("src/elmore/recipes/pretraining/medium.toml", "# {} million parameters"): lambda: [elmore_en.parameters("medium")],
    ("src/elmore/recipes/pretraining/original.toml", "recipe, {} million parameters"): lambda: [
        elmore_en.parameters("original")
    ],
    (
        "experiments/tokenizer/README.md",
        "The versions tokenize {} sentences of the texts differently. All {} were scored: together they cost {} % "
        "fewer bits, less in {} texts and more in {}",
    ): tokenizer_figures.bits,
    (
        "experiments/tokenizer/README.md",
        "The number of unknown words stays the same, {} and {}; their share goes from {} to {} %",
    ): tokenizer_figures.unknown,
    (
        "experiments/tokenizer/README.md",
        "takes up to {} times as long, {} times at the median",
    ): tokenizer_figures.times,
    ("experiments/tokenizer/README.md", "on {} characters a text"): tokenizer_figures.characters,
    ("experiments/overlap/README.md", "Hardly: {} of the {} test sets share no 13-gram"): overlap_figures.clean_sets,
    ("experiments/overlap/README.md", "examples in WikiNEuRal ({} %), MCL-WiC ({} %) and SCWS ({} %)"): (
        overlap_figures.shares
    ),
    (
        "experiments/overlap/README.md",
        "an older version: {} of its {} paragraphs share a 13-gram, and {} of the {} of the other articles",
    ): overlap_figures.known_article,
    ("experiments/overlap/README.md", "{} million words in this way of counting"): overlap_figures.words,
    (
        "docs/results.md",
        "reached the epoch limit first in {} of {} runs, {} of them on a tenth of SST-5",
    ): results_page_figures.ended_by_the_last_epoch,
    (
        "docs/results.md",
        "The error reduction on SQuAD is {} %, in the paper {} %. The interval of the gain does not include the "
        "paper's error reduction. On the dev set, {} settings were tried",
    ): lambda: results_page_figures.missed_on_squad()[:3],
    (
        "docs/results.md",
        "The best setting with ELMo has an F1 of {}, the best without ELMo {}: an error reduction of {} %",
    ): lambda: results_page_figures.missed_on_squad()[3:],
    (
        "docs/results.md",
        "improves the score by {} of ELMo's {} points on SQuAD, and by {} of {} on SNLI",
    ): results_page_figures.subword_points,
    (
        "experiments/tasks/README.md",
        "fewer by {} % on Wikigold, {} % for universal and {} % for Penn-style tags on EWT. Three fall short of the "
        "paper: {} % on WikiNEuRal's own test, whose labels are not by hand, where a quarter was aimed at, and {} % on "
        "WNUT-17 ({} % with GloVe's vectors fixed, by which the model without ELMo gains on the test set, though not "
        "on dev), where the paper has {} % on CoNLL-2003; and {} % on SST-5, where it has {} %",
    ): lambda: results_page_figures.first_half()[:-1],
    (
        "experiments/tasks/README.md",
        "with a hundredth of WikiNEuRal's sentences errors become fewer by {} %",
    ): lambda: results_page_figures.first_half()[-1:],
    (
        "experiments/tasks/README.md",
        "on SNLI ({} %; on MultiNLI, which it did not try, {} %), on PropBank's roles in EWT ({} %), on LitBank ({} %) "
        "and OntoGUM ({} %). On SQuAD errors become fewer by {} %, where the paper has {} %. With fewer of the roles' "
        "sentences it is more, and most with a tenth, {} %",
    ): results_page_figures.second_half,
    (
        "experiments/ablations/README.md",
        "without them its errors become more by {} %, though the biLM predicts text nearly as well as with them. "
        "Without the residual connection, by {} %, and the perplexity rises by half; with the forward direction alone, "
        "by {} %, with the backward one, by {} %; with one layer, by {} %",
    ): ablation_figures.tagger_errors,
    ("experiments/ablations/README.md", "all of a small biLM is worth {} points"): ablation_figures.sentiment_gain,
}


if __name__ == "__main__":
    main()
