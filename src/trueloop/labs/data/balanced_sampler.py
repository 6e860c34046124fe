"""balanced-sampler: What does a rare class cost, and what does a balanced order of samples change?

If 2% of the samples are of one class, a model that never predicts it is right in 98%. A sampler decides which samples
an epoch has: if each class comes equally often, the loss no longer pays for ignoring one.

Exercise: write a sampler that is balanced exactly, differs from epoch to epoch, and is repeatable.
"""

import itertools
from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, Sampler, TensorDataset, WeightedRandomSampler

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page

__all__ = ["LAB"]


def samples(count: int) -> tuple[Tensor, Tensor]:
    """Two clouds that overlap; one sample of 50 is of class 1."""
    labels = (torch.arange(count) % 50 == 0).long()
    return torch.randn(count, 2) + 1.5 * labels[:, None], labels


def class_weights(labels: Tensor) -> Tensor:
    """Of each sample: one divided by the size of its class."""
    return 1.0 / labels.bincount()[labels]


def trained(x: Tensor, y: Tensor, sampler: Sampler[int]) -> nn.Module:
    torch.manual_seed(1)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(5):
        for inputs, labels in DataLoader(TensorDataset(x, y), batch_size=50, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    return model


@dataclass(frozen=True)
class Trained:
    share: float  # of the rare class in an epoch
    accuracy: float
    recall: float  # of the rare class
    distinct: float  # share of all samples that an epoch has


def measure() -> dict[str, Trained]:
    torch.set_num_threads(1)
    x, y = samples(4000)
    test_x, test_y = samples(20_000)
    draws = torch.Generator().manual_seed(0)
    samplers: dict[str, Sampler[int]] = {
        "random": RandomSampler(range(len(y)), generator=draws),
        "balanced": WeightedRandomSampler(class_weights(y).tolist(), len(y), generator=draws),
    }
    found = {}
    for name, sampler in samplers.items():
        order = torch.tensor(list(sampler))
        right = trained(x, y, sampler)(test_x).argmax(1) == test_y
        distinct = len(order.unique()) / len(y)
        share = y[order].double().mean().item()
        found[name] = Trained(share, right.double().mean().item(), right[test_y == 1].double().mean().item(), distinct)
    return found


def answer(page: Page, measured: dict[str, Trained]) -> None:
    rows = [(name, each.share, each.accuracy, each.recall, each.distinct) for name, each in measured.items()]
    heads = ("sampler", "rare in an epoch", "accuracy", "recall of the rare class", "distinct samples")
    page.table("A rare class of 2%", heads, rows)
    plain, balanced = measured["random"], measured["balanced"]
    page.says("`WeightedRandomSampler` with 1 / class size shows both classes equally often.", _half(balanced.share))
    page.says("With the plain order the model finds few of the rare class.", plain.recall < 0.5)
    more = balanced.recall > plain.recall + 0.3
    page.says(f"With the balanced one it finds {balanced.recall:.0%} of them.", more)
    page.says("The price: more false alarms, so the accuracy falls.", balanced.accuracy < plain.accuracy)
    page.says(
        "It draws with replacement: an epoch leaves out many samples of the large class.", balanced.distinct < 0.5
    )


def _half(share: float) -> bool:
    return abs(share - 0.5) < 0.05


SKELETON = '''"""Write `BalancedSampler`: an order of indices in which each class comes equally often.

    labels       a list of ints, the class of each sample
    an epoch     each class as often as the largest class has samples, so len(sampler) is that times the classes;
                 each sample of a class comes equally often, or once more than others (no sample is left out)
    order        shuffled over the classes, by a generator of its own, seeded from seed and epoch: the same seed and
                 epoch give the same order, a different epoch (set_epoch) a different one

The global generator is not used: a sampler must not change dropout or initialization.

    trueloop lab balanced-sampler THIS_FILE.py
"""

import torch
from torch.utils.data import Sampler


class BalancedSampler(Sampler):
    def __init__(self, labels, seed=0):
        self.labels, self.seed, self.epoch = list(labels), seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        raise NotImplementedError("write BalancedSampler.__len__")

    def __iter__(self):
        raise NotImplementedError("write BalancedSampler.__iter__")
'''


def check(attempt: Attempt) -> None:
    labels = [0] * 23 + [1] * 5 + [2] * 10
    made = attempt.get("BalancedSampler")(labels, seed=3)
    state = torch.get_rng_state()
    first = [int(index) for index in made]
    untouched = torch.equal(state, torch.get_rng_state())
    hint = "use a torch.Generator of your own, and pass it to every random function"
    attempt.expect("the global generator is not used", untouched, hint)
    attempt.expect("len() is the number of indices", len(made) == len(first) == 69, "3 classes, the largest has 23")
    inside = all(0 <= index < len(labels) for index in first)
    attempt.require("every index is one of the samples", inside, "indices are positions in labels")
    counts = Counter(labels[index] for index in first)
    attempt.expect(
        "each class comes 23 times", set(counts.values()) == {23}, "which class comes too often?", str(counts)
    )
    each = Counter(first)
    even = all(
        each[at] in (23 // labels.count(label), -(-23 // labels.count(label))) for at, label in enumerate(labels)
    )
    hint = "drawing with replacement leaves samples out: repeat all samples of a class, then cut"
    attempt.expect("the samples of a class come equally often, or once more", even, hint)
    runs = sum(labels[one] != labels[two] for one, two in itertools.pairwise(first))
    attempt.expect("classes are mixed", runs > 20, "shuffle all indices at the end, not only within a class")
    attempt.expect("the same epoch is the same order", [int(index) for index in made] == first, "seed it in __iter__")
    made.set_epoch(1)
    attempt.expect("another epoch is another order", [int(at) for at in made] != first, "seed + epoch, say")


LAB = Lab(code=(samples, class_weights, trained), measure=measure, answer=answer, exercise=Exercise(SKELETON, check))
