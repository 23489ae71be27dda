"""Word senses: which of WordNet's senses a word has where it stands.

Two methods (`[task] method`):

nearest   A sense is the mean of the vectors of its uses in the training data, and a word has the sense whose mean is
          nearest to it by cosine (Peters et al., 2018, section 5.3; which measure they took they do not say). Of
          several layers (`elmo.layers = "all"`), the one with the best score on the dev set is taken.
linear    A softmax over the senses of the word's lemma, from a linear layer on its vector, trained by gradients.

Both read whole sentences, and look among the senses that the word's lemma and part of speech had in training; of equal
ones WordNet's first is taken. A lemma that was not in training gets WordNet's first sense, for which `[task]
sense_index` names WordNet's index.sense. A target of several tokens has the mean of their vectors. An answer is right
when it is any of the gold keys.

N targets, K senses of the lemma with the most, S senses of all, D size of a vector.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmore.display import pluralize
from elmore.errors import InputError
from elmore.files.text_files import COMPRESSION_SUFFIXES
from elmore.nn.devices import send
from elmore.tasks.core.config import TaskOptions, TaskRecipe
from elmore.tasks.core.task import Batch, Dataset, Fit, FittedModel, Labels, Task, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.metrics.score import Counts, Score
from elmore.tasks.modules.ensembling import mean_of_probabilities
from elmore.tasks.senses.inventory import LABEL_TYPES, SenseInventory, inventory_labels
from elmore.tasks.senses.sense_index import read_sense_index
from elmore.tasks.senses.sense_requests import parse_request, plain_text
from elmore.tasks.senses.target_words import (
    TokenSpan,
    candidate_layers,
    check_input_only,
    cosines,
    freeze,
    span_means,
    take_layer,
)
from elmore.tasks.senses.wsd_f1 import wsd_scores
from elmore.tasks.senses.wsd_reader import WsdInstance, find_keys, read_wsd


@dataclass(frozen=True, kw_only=True)
class WsdOptions(TaskOptions):
    """[task] of word senses."""

    method: Literal["nearest", "linear"] = "nearest"
    sense_index: str = ""  # WordNet's index.sense, plain or packed; needed in training alone


@dataclass(frozen=True, kw_only=True)
class WsdRecipe(TaskRecipe):
    """How word senses are learnt."""

    task: WsdOptions = WsdOptions()


class SenseSentence(NamedTuple):
    """A sentence and its targets, or of a user's text the places of its tokens."""

    tokens: Sequence[str]
    targets: Sequence[WsdInstance]
    data_set: str = ""  # the name of its file, by which scores are told apart
    offsets: Sequence[tuple[int, int]] = ()  # of a user's text: the characters of each token


class PredictedSense(NamedTuple):
    """The sense of one target."""

    key: str | None  # None: neither the training data nor WordNet has its lemma
    is_first_sense: bool = False  # of WordNet, because the lemma was not in training


@dataclass(frozen=True)
class WordSense:
    """A word in a text, and its sense."""

    text: str
    lemma: str
    pos: str
    sense: str | None  # WordNet's key; None where nothing is known of its lemma
    is_first_sense: bool  # of WordNet, because the lemma was not in training
    start: int  # characters of the whole text
    end: int


@dataclass(frozen=True)
class DisambiguatedText:
    """A text, and the senses of the words in it that were asked for."""

    text: str
    senses: tuple[WordSense, ...]

    def __str__(self) -> str:
        """The text, each target in brackets with its sense."""
        parts, end = [], 0
        for one in self.senses:
            parts += [self.text[end : one.start], f"[{one.text}|{one.sense or 'unknown'}]"]
            end = one.end
        return "".join([*parts, self.text[end:]])


class NearestSense(FittedModel[SenseSentence, list[PredictedSense]]):
    """The nearest mean of a sense's uses."""

    def __init__(self, inventory: SenseInventory, embedder: TokenEmbedder) -> None:
        super().__init__()
        freeze(embedder)
        self.embedder, self.inventory = embedder, inventory
        self.centroids: Tensor  # (S, D)
        self.counts: Tensor  # (S,) uses that each is the mean of; none where a part of the training data was drawn
        self.register_buffer("centroids", torch.zeros(len(inventory.keys), embedder.input_dim))
        self.register_buffer("counts", torch.zeros(len(inventory.keys)))

    def fit(
        self,
        train: Iterable[Batch[SenseSentence]],
        dev: Iterable[Batch[SenseSentence]],
        score: Callable[[Sequence[SenseSentence], Sequence[list[PredictedSense]]], Score],
    ) -> Generator[None, None, Fit]:
        """Average the uses of each sense, in every layer; keep the layer that does best on the dev set."""
        candidates = candidate_layers(self.embedder)
        centroids = yield from self._average(train, candidates)
        examples: list[SenseSentence] = []
        predictions: dict[str, list[list[PredictedSense]]] = {name: [] for name in candidates}
        for batch in dev:
            examples += batch.examples
            for name, layer in candidates.items():
                self._take(layer, centroids[name])
                predictions[name] += self.predict(batch)
            yield
        scores = {name: score(examples, own) for name, own in predictions.items()}
        chosen = max(scores, key=lambda name: scores[name].value)
        self._take(candidates[chosen], centroids[chosen])
        return Fit(scores, chosen)

    def _average(
        self, train: Iterable[Batch[SenseSentence]], candidates: Mapping[str, int | None]
    ) -> Generator[None, None, dict[str, Tensor]]:
        # In float64, so that the mean of equal vectors is that vector, and a tie a tie; on the CPU, for not all devices
        # have it, and a GPU adds in any order.
        sums = {name: torch.zeros(self.centroids.shape, dtype=torch.float64) for name in candidates}
        counts = torch.zeros(len(self.inventory.keys), dtype=torch.float64)
        for batch in train:
            gold = [self.inventory.gold_numbers(target) for example in batch.examples for target in example.targets]
            pairs = [(use, number) for use, numbers in enumerate(gold) for number in numbers]
            uses, senses = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).unbind(dim=1)
            counts.index_add_(0, senses, torch.ones(len(senses), dtype=torch.float64))
            for name, layer in candidates.items():
                take_layer(self.embedder, layer)
                vectors = target_vectors(self.embedder, batch).cpu().double()
                sums[name].index_add_(0, senses, vectors[uses])
            yield
        self.counts.copy_(counts)
        means = {name: own / counts.clamp_min(1).unsqueeze(1) for name, own in sums.items()}
        return {name: own.float().to(self.centroids.device) for name, own in means.items()}

    def _take(self, layer: int | None, centroids: Tensor) -> None:
        take_layer(self.embedder, layer)
        self.centroids = centroids

    def predict(self, batch: Batch[SenseSentence]) -> list[list[PredictedSense]]:
        vectors = iter(target_vectors(self.embedder, batch))
        return [[self._nearest(target, next(vectors)) for target in example.targets] for example in batch.examples]

    def _nearest(self, target: WsdInstance, vector: Tensor) -> PredictedSense:
        numbers = self.inventory.numbers(target)
        counts = self.counts[numbers.start : numbers.stop].tolist()
        known = [number for number, uses in zip(numbers, counts, strict=True) if uses]
        if not known:
            return PredictedSense(self.inventory.back_off(target), is_first_sense=True)
        # Of several largest, argmax gives the first.
        best = cosines(self.centroids[known], vector).argmax().item()
        return PredictedSense(self.inventory.keys[known[int(best)]])


class LinearSense(TaskModel[SenseSentence, list[PredictedSense]]):
    """A linear classifier over the senses of each lemma."""

    def __init__(self, inventory: SenseInventory, embedder: TokenEmbedder) -> None:
        super().__init__()
        check_input_only(embedder)
        self.embedder, self.inventory = embedder, inventory
        # Zeros, so that what no training example changes is a tie, which WordNet's first sense wins.
        self.weight = nn.Parameter(torch.zeros(len(inventory.keys), embedder.input_dim))
        self.bias = nn.Parameter(torch.zeros(len(inventory.keys)))

    def loss(self, batch: Batch[SenseSentence]) -> Tensor:
        """The mean over all targets that have a choice, of -log of the probability of their gold senses together."""
        targets = [target for example in batch.examples for target in example.targets]
        gold = [self.inventory.gold_numbers(target) for target in targets]
        ambiguous = [
            place for place, own in enumerate(gold) if own and len(own) < len(self.inventory.numbers(targets[place]))
        ]
        if not ambiguous:
            return 0 * self.bias.sum() + self.embedder.penalty()
        all_vectors = target_vectors(self.embedder, batch)
        vectors = all_vectors.index_select(0, send(torch.tensor(ambiguous), all_vectors.device))
        numbers = [self.inventory.numbers(targets[place]) for place in ambiguous]
        logits = self._logits(vectors, numbers)
        is_gold = _padded([[n in gold[place] for n in own] for place, own in zip(ambiguous, numbers, strict=True)])
        right = logits.masked_fill(~send(is_gold.bool(), logits.device), -torch.inf)
        return (logits.logsumexp(dim=1) - right.logsumexp(dim=1)).mean() + self.embedder.penalty()

    @classmethod
    def predict_together(
        cls, members: Sequence[Self], batches: Sequence[Batch[SenseSentence]]
    ) -> list[list[PredictedSense]]:
        inventory, batch = members[0].inventory, batches[0]
        targets = [target for example in batch.examples for target in example.targets]
        numbers = [inventory.numbers(target) for target in targets]
        best: list[int] = []
        if targets:
            pairs = zip(members, batches, strict=True)
            each = [one._logits(target_vectors(one.embedder, own), numbers) for one, own in pairs]
            best = mean_of_probabilities(each).argmax(dim=1).tolist()
        found = iter(
            PredictedSense(inventory.keys[known[place]])
            if known
            else PredictedSense(inventory.back_off(target), is_first_sense=True)
            for target, known, place in zip(targets, numbers, best, strict=True)
        )
        return [[next(found) for _ in example.targets] for example in batch.examples]

    def _logits(self, vectors: Tensor, numbers: Sequence[Sequence[int]]) -> Tensor:
        """(N, K) of the senses with these numbers, for each vector (N, D); -inf beyond the last of each."""
        senses = send(_padded(numbers), vectors.device)
        beyond = send(_padded([[1] * len(own) for own in numbers]), vectors.device) == 0
        # In float32: of bfloat16's few digits many would be equal.
        logits = torch.einsum("nkd,nd->nk", self.weight[senses], vectors.float()) + self.bias[senses]
        return logits.masked_fill(beyond, -torch.inf)


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


def read(paths: Sequence[str | Path], options: WsdOptions, *, to_train: bool) -> Dataset[SenseSentence]:  # noqa: ARG001
    """Sentences of XML files, each with its file of keys beside it; every file is a data set of its own."""
    examples, notices = [], []
    for path, name in zip(paths, data_set_names(paths), strict=True):
        sentences = read_wsd(path)
        own = [SenseSentence(tokens, instances, name) for tokens, instances in sentences if instances]
        if without := len(sentences) - len(own):
            notices.append(f"{name}: {pluralize(without, 'sentence')} without a target left out")
        examples += own
    return Dataset(examples, tuple(notices))


def files_beside(paths: Sequence[str | Path], options: WsdOptions) -> list[str | Path]:
    return [*map(find_keys, paths), *([options.sense_index] if options.sense_index else [])]


def data_set_names(paths: Sequence[str | Path]) -> list[str]:
    """What files are called in scores.

    >>> data_set_names(["data/senseval2.data.xml.xz", "data/senseval3.data.xml"])
    ['senseval2', 'senseval3']
    """
    names = []
    for path in map(Path, paths):
        packing = path.suffix if path.suffix.lower() in COMPRESSION_SUFFIXES else ""
        names.append(path.name.removesuffix(packing).removesuffix(".xml").removesuffix(".data"))
    # Of two files with one name the paths tell which is which.
    return [str(path) if names.count(name) > 1 else name for path, name in zip(paths, names, strict=True)]


def labels(examples: Sequence[SenseSentence], options: WsdOptions) -> Labels:
    if not options.sense_index:
        raise InputError(
            "task.sense_index is not set; it is to name WordNet's index.sense, for words whose lemma is not in the "
            "training data"
        )
    targets = (target for example in examples for target in example.targets)
    return inventory_labels(targets, read_sense_index(options.sense_index))


def check(examples: Sequence[SenseSentence], known: Labels) -> None:
    """Senses that the training data did not have are no mistake: they are what no model can find."""


def build(options: WsdOptions, known: Labels, embedder: TokenEmbedder) -> NearestSense | LinearSense:
    inventory = SenseInventory.of(known)
    return NearestSense(inventory, embedder) if options.method == "nearest" else LinearSense(inventory, embedder)


def score(examples: Sequence[SenseSentence], predictions: Sequence[Sequence[PredictedSense]]) -> Score:
    """F1, by data set and part of speech."""
    gold: dict[str, list[WsdInstance]] = {}
    answers: dict[str, dict[str, str]] = {}
    for example, senses in zip(examples, predictions, strict=True):
        gold.setdefault(example.data_set, []).extend(example.targets)
        own = answers.setdefault(example.data_set, {})
        own |= {
            target.id: sense.key for target, sense in zip(example.targets, senses, strict=True) if sense.key is not None
        }
    return wsd_scores(gold, answers)


def counts(example: SenseSentence, senses: Sequence[PredictedSense]) -> Counts:
    """How many of a sentence's targets have an answer, and a right one."""
    right = sum(sense.key in target.keys for target, sense in zip(example.targets, senses, strict=True))
    answered = sum(sense.key is not None for sense in senses)
    return Counts(gold=len(example.targets), found=answered, correct=right)


def parse(text: str, tokenizer: StyledTokenizer) -> list[SenseSentence]:
    """The sentences of a text in which there are targets; see `sense_requests` for how they are marked."""
    request = parse_request(text, tokenizer)
    return [
        SenseSentence(cut.tokens, targets, offsets=cut.offsets)
        for cut, targets in zip(request.sentences, request.targets, strict=True)
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
    for example, own in zip(examples, predictions, strict=True):
        for target, sense in zip(example.targets, own, strict=True):
            start, end = example.offsets[target.start][0], example.offsets[target.end - 1][1]
            word = plain[start:end]
            senses.append(WordSense(word, target.lemma, target.pos, sense.key, sense.is_first_sense, start, end))
    return DisambiguatedText(plain, tuple(sorted(senses, key=lambda sense: sense.start)))


WSD: Task[SenseSentence, list[PredictedSense]] = Task(
    name="wsd",
    summary="senses of words, by WordNet's keys",
    recipe=WsdRecipe,
    read=read,
    files_beside=files_beside,
    sentences=lambda example: (example.tokens,),
    labels=labels,
    label_types=LABEL_TYPES,
    check=check,
    build=build,
    score=score,
    counts=counts,
    parse=parse,
    result=result,
)
