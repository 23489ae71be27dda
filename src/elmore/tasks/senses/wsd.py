"""Word sense disambiguation: the WordNet sense of a word in its context.

Two methods (`[task] method`):

nearest   A sense is the mean of the vectors of its uses in the training data. A word has the sense with the nearest
          mean by cosine (Peters et al., 2018, section 5.3; the paper does not name the measure). If `elmo.layers` is
          "all", the layer with the best score on the dev set is used.
linear    A softmax over the senses of the word's lemma, from a linear layer on its vector, trained by gradients.

Both encode whole sentences and choose among the senses that the word's lemma and part of speech have in the training
data; ties go to WordNet's first sense. A lemma that is not in the training data gets WordNet's first sense, from
WordNet's index.sense (`[task] sense_index`). A target of several tokens has the mean of their vectors. An answer is
correct if it is any of the gold keys. The score is that of Raganato, Camacho-Collados and Navigli (2017).

N targets, K senses of the lemma with the most, S senses of all, D size of a vector.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmore.display import pluralize
from elmore.errors import InputError
from elmore.nn.devices import send
from elmore.tasks.core.config import TaskOptions, TaskRecipe
from elmore.tasks.core.labels import unseen_labels
from elmore.tasks.core.task import Batch, Dataset, Fit, FittedModel, Labels, Task, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.metrics.metric import Counts, F1Metric, Rows, Score, array_of
from elmore.tasks.modules.ensembling import mean_of_probabilities
from elmore.tasks.senses.inventory import LABEL_TYPES, SenseInventory, inventory_labels, read_sense_index
from elmore.tasks.senses.target_words import (
    TokenSpan,
    candidate_layers,
    check_input_only,
    cosines,
    freeze,
    select_layer,
    span_means,
)
from elmore.tasks.senses.wsd_reader import (
    PARTS_OF_SPEECH,
    WsdInstance,
    data_set_name,
    find_keys,
    parse_request,
    plain_text,
    read_wsd,
)


@dataclass(frozen=True, kw_only=True)
class WsdOptions(TaskOptions):
    """[task] of word senses."""

    method: Literal["nearest", "linear"] = "nearest"
    sense_index: str = ""  # WordNet's index.sense, plain or compressed; required for training only


@dataclass(frozen=True, kw_only=True)
class WsdRecipe(TaskRecipe):
    """Recipe of word senses."""

    task: WsdOptions = WsdOptions()


class SenseSentence(NamedTuple):
    """A sentence and its targets; of a user's text also the offsets of its tokens."""

    tokens: Sequence[str]
    targets: Sequence[WsdInstance]
    data_set: str = ""  # the name of its file, for scores by data set
    offsets: Sequence[tuple[int, int]] = ()  # of a user's text: the characters of each token


class PredictedSense(NamedTuple):
    """The sense of one target."""

    key: str | None  # None: neither the training data nor WordNet has its lemma
    is_first_sense: bool = False  # WordNet's first sense, because the lemma is not in the training data


@dataclass(frozen=True)
class WordSense:
    """A word in a text, and its sense."""

    text: str
    lemma: str
    pos: str
    sense: str | None  # WordNet's key; None if the lemma is unknown
    is_first_sense: bool  # WordNet's first sense, because the lemma is not in the training data
    start: int  # characters of the whole text
    end: int


@dataclass(frozen=True)
class DisambiguatedText:
    """A text, and the senses of its targets."""

    text: str
    senses: tuple[WordSense, ...]

    def __str__(self) -> str:
        """The text, each target in brackets with its sense."""
        parts, end = [], 0
        for sense in self.senses:
            parts += [self.text[end : sense.start], f"[{sense.text}|{sense.sense or 'unknown'}]"]
            end = sense.end
        return "".join([*parts, self.text[end:]])


class NearestCentroid(FittedModel[SenseSentence, list[PredictedSense]]):
    """The sense with the nearest mean of its uses."""

    def __init__(self, inventory: SenseInventory, embedder: TokenEmbedder) -> None:
        super().__init__()
        freeze(embedder)
        self.embedder, self.inventory = embedder, inventory
        self.centroids: Tensor  # (S, D)
        self.counts: Tensor  # (S,) the number of uses in each mean; 0 if the sampled training data has no use
        self.register_buffer("centroids", torch.zeros(len(inventory.keys), embedder.input_dim))
        self.register_buffer("counts", torch.zeros(len(inventory.keys)))

    def fit(
        self,
        train: Iterable[Batch[SenseSentence]],
        dev: Iterable[Batch[SenseSentence]],
        score: Callable[[Sequence[SenseSentence], Sequence[list[PredictedSense]]], Score],
    ) -> Generator[None, None, Fit]:
        """Average the uses of each sense in every layer; select the layer with the best score on the dev set."""
        candidates = candidate_layers(self.embedder)
        centroids = yield from self._average(train, candidates)
        examples: list[SenseSentence] = []
        predictions: dict[str, list[list[PredictedSense]]] = {name: [] for name in candidates}
        for batch in dev:
            examples += batch.examples
            for name, layer in candidates.items():
                self._select(layer, centroids[name])
                predictions[name] += self.predict(batch)
            yield
        scores = {name: score(examples, senses) for name, senses in predictions.items()}
        chosen = max(scores, key=lambda name: scores[name].value)
        self._select(candidates[chosen], centroids[chosen])
        return Fit(scores, chosen)

    def _average(
        self, train: Iterable[Batch[SenseSentence]], candidates: Mapping[str, int | None]
    ) -> Generator[None, None, dict[str, Tensor]]:
        # In float64, so that the mean of equal vectors is that vector, and ties remain ties. On the CPU: not all
        # devices support float64, and a GPU sums in no fixed order.
        sums = {name: torch.zeros(self.centroids.shape, dtype=torch.float64) for name in candidates}
        counts = torch.zeros(len(self.inventory.keys), dtype=torch.float64)
        for batch in train:
            gold = [self.inventory.gold_numbers(target) for example in batch.examples for target in example.targets]
            pairs = [(use, number) for use, numbers in enumerate(gold) for number in numbers]
            uses, senses = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).unbind(dim=1)
            counts.index_add_(0, senses, torch.ones(len(senses), dtype=torch.float64))
            for name, layer in candidates.items():
                select_layer(self.embedder, layer)
                vectors = target_vectors(self.embedder, batch).cpu().double()
                sums[name].index_add_(0, senses, vectors[uses])
            yield
        self.counts.copy_(counts)
        means = {name: total / counts.clamp_min(1).unsqueeze(1) for name, total in sums.items()}
        return {name: mean.float().to(self.centroids.device) for name, mean in means.items()}

    def _select(self, layer: int | None, centroids: Tensor) -> None:
        select_layer(self.embedder, layer)
        self.centroids = centroids

    def predict(self, batch: Batch[SenseSentence]) -> list[list[PredictedSense]]:
        vectors = iter(target_vectors(self.embedder, batch))
        return [[self._nearest(target, next(vectors)) for target in example.targets] for example in batch.examples]

    def _nearest(self, target: WsdInstance, vector: Tensor) -> PredictedSense:
        numbers = self.inventory.numbers(target)
        counts = self.counts[numbers.start : numbers.stop].tolist()
        trained = [number for number, uses in zip(numbers, counts, strict=True) if uses]
        if not trained:
            return PredictedSense(self.inventory.first_sense(target), is_first_sense=True)
        # argmax returns the first of equal cosines.
        best = cosines(self.centroids[trained], vector).argmax().item()
        return PredictedSense(self.inventory.keys[trained[int(best)]])


class LinearSense(TaskModel[SenseSentence, list[PredictedSense]]):
    """A linear classifier over the senses of each lemma."""

    def __init__(self, inventory: SenseInventory, embedder: TokenEmbedder) -> None:
        super().__init__()
        check_input_only(embedder)
        self.embedder, self.inventory = embedder, inventory
        # Zeros, so that senses without training examples are tied, and WordNet's first sense wins.
        self.weight = nn.Parameter(torch.zeros(len(inventory.keys), embedder.input_dim))
        self.bias = nn.Parameter(torch.zeros(len(inventory.keys)))

    def loss(self, batch: Batch[SenseSentence]) -> Tensor:
        """The mean over all ambiguous targets of minus the log-probability of their gold senses together."""
        targets = [target for example in batch.examples for target in example.targets]
        gold = [self.inventory.gold_numbers(target) for target in targets]
        ambiguous = [
            index
            for index, senses in enumerate(gold)
            if senses and len(senses) < len(self.inventory.numbers(targets[index]))
        ]
        if not ambiguous:
            return 0 * self.bias.sum() + self.embedder.penalty()
        all_vectors = target_vectors(self.embedder, batch)
        vectors = all_vectors.index_select(0, send(torch.tensor(ambiguous), all_vectors.device))
        numbers = [self.inventory.numbers(targets[index]) for index in ambiguous]
        logits = self._logits(vectors, numbers)
        is_gold = _padded(
            [[n in gold[index] for n in senses] for index, senses in zip(ambiguous, numbers, strict=True)]
        )
        correct = logits.masked_fill(~send(is_gold.bool(), logits.device), -torch.inf)
        return (logits.logsumexp(dim=1) - correct.logsumexp(dim=1)).mean() + self.embedder.penalty()

    @classmethod
    def predict_together(
        cls, members: Sequence[Self], batches: Sequence[Batch[SenseSentence]]
    ) -> list[list[PredictedSense]]:
        inventory, batch = members[0].inventory, batches[0]
        targets = [target for example in batch.examples for target in example.targets]
        numbers = [inventory.numbers(target) for target in targets]
        best = [0] * len(targets)
        # argmax needs at least one sense; a batch may have only lemmas that are not in the training data.
        if any(numbers):
            pairs = zip(members, batches, strict=True)
            logits = [model._logits(target_vectors(model.embedder, own), numbers) for model, own in pairs]
            best = mean_of_probabilities(logits).argmax(dim=1).tolist()
        senses = iter(
            PredictedSense(inventory.keys[choices[index]])
            if choices
            else PredictedSense(inventory.first_sense(target), is_first_sense=True)
            for target, choices, index in zip(targets, numbers, best, strict=True)
        )
        return [[next(senses) for _ in example.targets] for example in batch.examples]

    def _logits(self, vectors: Tensor, numbers: Sequence[Sequence[int]]) -> Tensor:
        """(N, K) the logits of the senses with these numbers, for each vector (N, D); -inf after the last of each."""
        senses = send(_padded(numbers), vectors.device)
        is_padding = send(_padded([[1] * len(choices) for choices in numbers]), vectors.device) == 0
        # In float32: with the few digits of bfloat16, many logits would be equal.
        logits = torch.einsum("nkd,nd->nk", self.weight[senses], vectors.float()) + self.bias[senses]
        return logits.masked_fill(is_padding, -torch.inf)


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return pad_sequence([torch.tensor(list(row), dtype=torch.int64) for row in rows], batch_first=True)


def target_vectors(embedder: TokenEmbedder, batch: Batch[SenseSentence]) -> Tensor:
    """(N, D) the vectors of all targets of a batch, in their order."""
    (inputs,) = batch.inputs
    spans = [
        TokenSpan(row, target.start, target.end)
        for row, example in enumerate(batch.examples)
        for target in example.targets
    ]
    return span_means(embedder(inputs).input, spans)


def read(
    paths: Sequence[str | Path],
    options: WsdOptions,  # noqa: ARG001
    *,
    to_train: bool,  # noqa: ARG001
) -> Dataset[SenseSentence]:
    """Sentences of XML files with their keys; every file is a separate data set."""
    examples, notices = [], []
    for path, name in zip(paths, data_set_names(paths), strict=True):
        sentences = read_wsd(path)
        with_targets = [SenseSentence(tokens, instances, name) for tokens, instances in sentences if instances]
        if without := len(sentences) - len(with_targets):
            notices.append(f"{name}: {pluralize(without, 'sentence')} without a target left out")
        examples += with_targets
    return Dataset(examples, tuple(notices))


def extra_files(paths: Sequence[str | Path], options: WsdOptions) -> list[str | Path]:
    return [*map(find_keys, paths), *([options.sense_index] if options.sense_index else [])]


def data_set_names(paths: Sequence[str | Path]) -> list[str]:
    """The names of files in scores; their paths if names are equal.

    >>> data_set_names(["data/senseval2.data.xml.xz", "data/senseval3.data.xml"])
    ['senseval2', 'senseval3']
    """
    names = [data_set_name(path) for path in paths]
    return [str(path) if names.count(name) > 1 else name for path, name in zip(paths, names, strict=True)]


def labels(examples: Sequence[SenseSentence], options: WsdOptions) -> Labels:
    if not options.sense_index:
        raise InputError(
            "task.sense_index is not set; it must name WordNet's index.sense, for words whose lemma is not in the "
            "training data"
        )
    targets = (target for example in examples for target in example.targets)
    return inventory_labels(targets, read_sense_index(options.sense_index))


def unseen(examples: Sequence[SenseSentence], known: Labels) -> list[str]:
    """A notice about targets whose gold senses cannot be predicted."""
    inventory = SenseInventory.of(known)
    targets = [target for example in examples for target in example.targets]
    return unseen_labels([target.keys[0] for target in targets if not inventory.can_predict(target)], (), "target")


def build(options: WsdOptions, known: Labels, embedder: TokenEmbedder) -> NearestCentroid | LinearSense:
    inventory = SenseInventory.of(known)
    return NearestCentroid(inventory, embedder) if options.method == "nearest" else LinearSense(inventory, embedder)


_ALL = ""  # all data sets, or all parts of speech


class SenseF1(F1Metric[SenseSentence, list[PredictedSense]]):
    """F1 of senses, by data set and part of speech, with one row for each sentence.

    A sense is correct if it is one of the target's keys. A target without an answer lowers only the recall. Parts:
    precision, recall, f1, gold, found (answered) and correct of all targets, and with the prefixes SET., POS. and
    SET.POS. those of a set, of a part of speech, and of both.
    """

    def rows(self, examples: Sequence[SenseSentence], predictions: Sequence[list[PredictedSense]]) -> Rows:
        values, cells = [], dict[tuple[str, str], Counts]()
        for example, senses in zip(examples, predictions, strict=True):
            total = Counts(0, 0, 0)
            for target, sense in zip(example.targets, senses, strict=True):
                counts = Counts(1, int(sense.key is not None), int(sense.key in target.keys))
                total += counts
                for cell in {(example.data_set, target.pos), (example.data_set, _ALL), (_ALL, target.pos)}:
                    cells[cell] = cells.get(cell, Counts(0, 0, 0)) + counts
            values.append(total)
        by_class = {"\t".join(cell): np.array(counts, float) for cell, counts in cells.items()}
        return Rows(array_of(values, 3), by_class)

    def parts(self, rows: Rows) -> dict[str, float]:
        parts: dict[str, float] = self.total(rows).named()
        for cell, counts in self.classes(rows).items():
            parts |= counts.named(cell.strip("\t").replace("\t", "."))
        return parts

    def table(self, rows: Rows) -> str:
        cells = {
            (name, pos): c for (name, _, pos), c in ((k.partition("\t"), c) for k, c in self.classes(rows).items())
        }
        cells[_ALL, _ALL] = self.total(rows)
        sets = [name for name, pos in cells if name != _ALL and pos == _ALL]
        known_pos = [pos for pos in PARTS_OF_SPEECH if (_ALL, pos) in cells]
        columns = [_ALL, *known_pos, *sorted({pos for _, pos in cells} - {*PARTS_OF_SPEECH, _ALL})]
        names = [*sets, _ALL] if len(sets) > 1 else sets
        width = max(map(len, ["all", *names]))
        lines = [f"{'F1':<{width}}" + "".join(f"{column or 'all':>7}" for column in columns) + "  instances  answered"]
        for name in names:
            total = cells[name, _ALL]
            shares = (f"{cells[name, pos].f1:7.1f}" if (name, pos) in cells else f"{'-':>7}" for pos in columns)
            lines.append(f"{name or 'all':<{width}}{''.join(shares)}  {total.gold:9,.0f}  {total.found:8,.0f}")
        return "\n".join(lines)


def from_text(text: str, tokenizer: StyledTokenizer) -> list[SenseSentence]:
    """The sentences of a text that contain targets."""
    request = parse_request(text, tokenizer)
    return [
        SenseSentence(sentence.tokens, targets, offsets=sentence.offsets)
        for sentence, targets in zip(request.sentences, request.targets, strict=True)
        if targets
    ]


def result(
    text: str,
    examples: Sequence[SenseSentence],
    predictions: Sequence[Sequence[PredictedSense]],
    known: Labels,  # noqa: ARG001
) -> DisambiguatedText:
    """The senses of one text, in the order of their words."""
    plain = plain_text(text)
    senses = []
    for example, predicted in zip(examples, predictions, strict=True):
        for target, sense in zip(example.targets, predicted, strict=True):
            start, end = example.offsets[target.start][0], example.offsets[target.end - 1][1]
            word = plain[start:end]
            senses.append(WordSense(word, target.lemma, target.pos, sense.key, sense.is_first_sense, start, end))
    return DisambiguatedText(plain, tuple(sorted(senses, key=lambda sense: sense.start)))


WSD: Task[SenseSentence, list[PredictedSense]] = Task(
    name="wsd",
    summary="senses of words, by WordNet's keys",
    recipe=WsdRecipe,
    read=read,
    files_beside=extra_files,
    sentences=lambda example: (example.tokens,),
    labels=labels,
    label_types=LABEL_TYPES,
    check=lambda examples, known: None,  # noqa: ARG005
    unseen=unseen,
    build=build,
    metric=SenseF1(),
    parse=from_text,
    result=result,
)
