"""determinism-audit: Which settings make two runs of a script bit-identical, and what does each of them cover?

Each setting covers one source of difference. The same training runs twice, each time in a different state, as two
processes would: first with all settings, then with all but one. What a missing setting covers shows as a difference.

Threads, hash seeds and operations without a deterministic form follow, and the settings of a GPU where there is one.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Code

__all__ = ["LAB"]

SETTINGS = {
    "torch.manual_seed": "weights, dropout, noise",
    "random.seed": "Python's own draws: augmentation, shuffled lists",
    "numpy.random.seed": "numpy's draws",
    "DataLoader(generator=...)": "the order of samples, whatever was drawn before",
}
GPU_SETTINGS = """torch.use_deterministic_algorithms(True)      # and CUBLAS_WORKSPACE_CONFIG=:4096:8
torch.backends.cudnn.benchmark = False        # True: takes the fastest kernel, which may differ each time
torch.backends.cuda.matmul.allow_tf32 = False # for equal numbers on other GPUs"""


def train(made: set[str], start: int) -> Tensor:
    """The weights after an epoch in a process whose generators begin anywhere."""
    for name, seed in (("torch.manual_seed", torch.manual_seed), ("random.seed", random.seed)):
        seed(0 if name in made else start)
    numpy.random.seed(0 if "numpy.random.seed" in made else start)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    torch.rand(start)  # one more or one less random tensor: a log, a plot, a test
    generator = torch.Generator().manual_seed(0) if "DataLoader(generator=...)" in made else None
    data = TensorDataset(torch.linspace(-1, 1, 512).view(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in DataLoader(data, batch_size=16, shuffle=True, generator=generator):
        x = x * random.uniform(0.9, 1.1) + float(numpy.random.normal(0, 0.1))
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def bit_identical(made: set[str]) -> bool:
    return torch.equal(train(made, start=1), train(made, start=2))


@contextmanager
def only_deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def sum_with_threads(threads: int) -> float:
    torch.set_num_threads(threads)
    return torch.linspace(0, 1, 1_000_003).sum().item()


def order_of_set(hash_seed: int) -> str:
    """In a process of its own: the seed is read at its start."""
    words = [sys.executable, "-S", "-c", "print(list({'cat', 'dog', 'bird', 'fish', 'frog', 'fly'}))"]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def refused() -> str:
    with only_deterministic():
        try:
            torch.zeros(4).put_(torch.tensor([1, 1]), torch.tensor([1.0, 2.0]))
        except RuntimeError as error:
            return str(error).partition(",")[0]
    return ""


def _on_gpu() -> bool | None:
    """Sums into one place, twice, with the setting. None: there is no GPU."""
    if not torch.cuda.is_available():
        return None
    where, values = torch.zeros(100_000, dtype=torch.long, device="cuda"), torch.rand(100_000, device="cuda")
    with only_deterministic():
        sums = [torch.zeros(4, device="cuda").index_add_(0, where, values).cpu() for _ in range(5)]
    return all(torch.equal(sums[0], each) for each in sums)


def measure() -> dict[str, Any]:
    every = set(SETTINGS)
    states = random.getstate(), numpy.random.get_state()
    try:
        audit = {"all": bit_identical(every), **{f"all but {name}": bit_identical(every - {name}) for name in SETTINGS}}
    finally:
        random.setstate(states[0])
        numpy.random.set_state(states[1])
    with only_deterministic():
        filled = bool(torch.empty(1000).isnan().all())
    return {
        "audit": audit,
        "sums": {f"{threads} threads": [sum_with_threads(threads) for _ in range(3)] for threads in (1, 2)},
        "sets": [order_of_set(1), order_of_set(2), order_of_set(1)],
        "refused": refused(),
        "empty_is_nan": filled,
        "gpu": _on_gpu(),
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    audit, sums = measured["audit"], measured["sums"]
    rows = [(n, "bit-identical" if same else "different", SETTINGS.get(n[8:], "")) for n, same in audit.items()]
    page.table("Two runs", ("settings", "weights", "what is missing"), rows)
    page.table(
        "One sum of a million numbers, three times", ("", "1", "2", "3"), [(n, *map(repr, sums[n])) for n in sums]
    )
    page.says("With all of them, two runs are bit-identical.", audit["all"])
    page.says("Without any one of them they are not.", not any(audit[f"all but {name}"] for name in SETTINGS))
    fixed = all(len(set(each)) == 1 for each in sums.values())
    page.says("A number of threads gives one sum, each time; another number may give another.", fixed)
    one, other, again = measured["sets"]
    page.says(
        "The order of a set of texts differs between processes unless PYTHONHASHSEED is set.", one == again != other
    )
    strict = "`use_deterministic_algorithms(True)` refuses operations without a deterministic form: here `put_`."
    page.says(strict, "put_ does not have a deterministic implementation" in measured["refused"])
    page.says("It also fills uninitialized memory with NaN, so that reading it shows.", measured["empty_is_nan"])
    if measured["gpu"] is not None:
        page.says("On this GPU, `index_add_` gives one sum each time with that setting.", measured["gpu"])
    page.show(Code(GPU_SETTINGS, title="For a GPU, besides"))
    page.show(Code("trueloop probe train.py runs-are-deterministic", title="The first operation that differs"))


LAB = Lab(code=(train, bit_identical, sum_with_threads, order_of_set), measure=measure, answer=answer)
