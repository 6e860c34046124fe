"""What is told of the batches of loaders, and that looking at them changes nothing and keeps nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Checked
from trueloop.doctor.watch import Watch
from trueloop.event import BatchInspected, Event, RowsShared

SCRIPT = """\
import gc
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(0)
y = torch.randint(0, 3, (200,))
data = TensorDataset(torch.randn(200, 6) + y[:, None], y)
train = DataLoader(Subset(data, range(160)), batch_size=16, shuffle=True)
valid = DataLoader(Subset(data, range(150, 200)), batch_size=25, shuffle=True)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(3):
    model.train()
    for x, target in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
    print(f"{loss.item()!r} {model[0].weight.sum().item()!r} {model[1].running_var.sum().item()!r}")
    model.eval()
    with torch.no_grad():
        for x, target in valid:
            print(f"{nn.functional.cross_entropy(model(x), target).item()!r}")
print(f"{torch.rand(1).item()!r}")
"""


def events_of(text: str) -> list[Event]:
    """What is told of a script that runs in this process."""
    told: list[Event] = []
    watch = Watch(script="here", select=["DAT101", "DAT103"])
    hear = watch._bus.emit

    def emit(event: Event) -> None:
        told.append(event)
        hear(event)

    watch._bus.emit = emit
    with watch:
        exec(compile(text, "here.py", "exec"), {"__name__": "here"})
    assert watch.verdict is not None
    assert not watch.verdict.failures
    return told


def looks(text: str) -> list[BatchInspected]:
    return [event for event in events_of(text) if isinstance(event, BatchInspected)]


def test_the_checked_run_is_the_plain_run(check: Callable[..., Checked], capsys: pytest.CaptureFixture[str]) -> None:
    checked = check(SCRIPT)
    assert "train-validation-overlap" in checked.names()
    exec(compile(SCRIPT, "plain.py", "exec"), {"__name__": "plain"})
    plain = capsys.readouterr().out.splitlines()
    assert len(plain) == 10
    assert [line for line in checked.output.splitlines() if line in plain] == plain


def test_each_batch_is_told_with_its_fate() -> None:
    told = looks(SCRIPT)
    trained = [batch for batch in told if batch.fate == "trained"]
    evaluated = [batch for batch in told if batch.fate == "evaluated"]
    assert (len(trained), len(evaluated)) == (30, 6)
    assert {batch.order for batch in told} == {"random"}
    assert [batch.stepped for batch in trained] == list(range(30))
    assert all(len(batch.labels) == batch.size for batch in trained)
    first, second = ({row for batch in trained if batch.passes == number for row in batch.rows} for number in (1, 2))
    assert first == second
    assert len(first) == 160
    shared = first & {row for batch in evaluated for row in batch.rows}
    assert len(shared) == 10


def test_numbers_that_two_loaders_share_are_told_once() -> None:
    (event,) = [event for event in events_of(SCRIPT) if isinstance(event, RowsShared)]
    assert (event.samples, event.other_samples, event.shared) == (160, 50, 10)


def test_without_no_grad_an_evaluation_is_still_one() -> None:
    told = looks(SCRIPT.replace("with torch.no_grad():", "if True:"))
    assert [batch.fate for batch in told if batch.loader == 1] == ["evaluated"] * 6


def test_gradients_with_respect_to_the_input_are_no_training() -> None:
    attacked = SCRIPT.replace("with torch.no_grad():", "if True:").replace(
        'print(f"{nn.functional.cross_entropy(model(x), target).item()!r}")',
        "nn.functional.cross_entropy(model(x.requires_grad_()), target).backward(); optimizer.zero_grad()",
    )
    assert {batch.fate for batch in looks(attacked) if batch.loader == 1} == {"unknown"}


def test_a_batch_drawn_ahead_finds_its_own_forward() -> None:
    ahead = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
train = DataLoader(TensorDataset(torch.randn(64, 3), torch.randn(64, 1)), batch_size=16)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = iter(train)
following = next(batches)
while following is not None:
    (x, y), following = following, next(batches, None)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""
    assert [(batch.index, batch.stepped) for batch in looks(ahead)] == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_nothing_is_kept_alive() -> None:
    kept = SCRIPT + (
        "import weakref\n"
        "gone = [weakref.ref(thing) for thing in (train, valid, data, x, model, optimizer)]\n"
        "del train, valid, data, x, y, target, loss, model, optimizer\n"
        "gc.collect()\n"
        "assert [ref() for ref in gone] == [None] * 6\n"
    )
    assert looks(kept)
