"""What the observers of forwards, modes, schedules and states say of scripts that run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.conftest import Checked, in_child
from trueloop.event import (
    Event,
    Forward,
    ScheduleBuilt,
    ScheduleEnded,
    ScheduleStepped,
    StateReused,
    SteppedWhileEvaluating,
)

E = TypeVar("E", bound=Event)

START = """\
import gc
import weakref
import torch
from torch import nn
from torch.optim import lr_scheduler
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
mse = nn.functional.mse_loss
x = torch.randn(16, 4)
y = x.sum(1, keepdim=True)
def train(steps=1, net=None):
    for _ in range(steps):
        optimizer.zero_grad()
        mse((net or model)(x), y).backward()
        optimizer.step()
"""
SELECT = ["MOD", "OPT106", "OPT107", "OPT108", "CKP104"]
Told = Callable[[str, type[E]], list[E]]


# -- forwards --


def test_each_fate(told: Told[Forward]) -> None:
    text = "train()\nmodel(x)\nwith torch.no_grad():\n    model(x)\nkept = model(x)\n"
    assert [call.fate for call in told(text, Forward)] == ["trained", "dropped", "graphless", "unknown"]


def test_fates_do_not_change_when_hooks_are_no_longer_set(told: Told[Forward]) -> None:
    calls = told("train(20)\nfor i in range(3):\n    model(x)\ntrain(2)\n", Forward)
    assert [call.fate for call in calls] == ["trained"] * 20 + ["dropped"] * 3 + ["trained"] * 2


def test_a_training_line_that_skips_its_backward_is_seen_without_a_hook(told: Told[Forward]) -> None:
    text = """
for i in range(24):
    loss = mse(model(x), y)
    if i > 20:
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
del loss
"""
    assert [call.fate for call in told(text, Forward)] == ["trained"] * 21 + ["dropped"] * 3


def test_an_output_that_is_kept_for_ever_does_not_silence_the_rest(told: Told[Forward]) -> None:
    calls = told("kept = model(x)\ntrain(300)\n", Forward)
    assert calls[0].fate == "unknown"
    assert [call.fate for call in calls[1:]] == ["trained"] * 300
    assert [call.call for call in calls] == sorted(call.call for call in calls)


def test_outputs_that_hold_tensors_in_attributes(told: Told[Forward]) -> None:
    text = """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, inputs):
        return torch.distributions.Categorical(logits=self.layer(inputs))
class Box:
    __slots__ = ("value",)
class Boxed(Policy):
    def forward(self, inputs):
        box = Box()
        box.value = self.layer(inputs)
        return box
policy, boxed = Policy(), Boxed()
choice = policy(x)
choice.log_prob(choice.sample()).sum().backward()
boxed(x).value.sum().backward()
"""
    assert [call.fate for call in told(text, Forward)] == ["trained", "unknown"]


@pytest.mark.parametrize(
    ("text", "scored"),
    [
        ("nn.MSELoss()(model(x), y)", True),
        ("mse(model(x), y)", True),
        ("mse(model(x), y, reduction='none')", False),
        ("model(x).argmax(1)", True),
        ("torch.max(model(x), 1)", True),
        ("model(x).topk(1)", True),
        ("model(x).max()", False),
        ("model(x); torch.zeros(3, 3).argmax(1)", False),
        ("model(x)", False),
        ("live = nn.Linear(4, 1)(x)\nwith torch.no_grad(): model(x)\nmse(live, y).backward()", False),
    ],
)
def test_what_makes_a_score(told: Told[Forward], text: str, scored: bool) -> None:
    body = text if "live" in text else "with torch.no_grad():\n" + "".join(f"    {part}\n" for part in text.split("; "))
    assert [call.scored for call in told(body, Forward) if call.name == "Sequential"] == [scored]


def test_dropout_functions_count_as_layers(told: Told[Forward]) -> None:
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.rnn = nn.Linear(4, 1), nn.LSTM(4, 4, 2, dropout=0.1)
    def forward(self, inputs):
        return self.layer(nn.functional.dropout(self.rnn(inputs)[0], 0.5, self.training))
net = Net()
net(x)
net.eval()
net(x)
"""
    counts = [(call.active_dropouts, call.idle_dropouts) for call in told(text, Forward)]
    assert counts == [(1, 0), (0, 1)]


def test_nothing_of_the_users_is_kept_alive(told: Told[Forward]) -> None:
    text = """
norm = nn.BatchNorm1d(4)
out = norm(x)
state = model.state_dict()
scheduler = lr_scheduler.StepLR(optimizer, 1)
train(2)
things = [norm, out, model, optimizer, scheduler, next(iter(state.values()))]
refs = [weakref.ref(thing) for thing in things]
del norm, out, model, optimizer, scheduler, state, things
gc.collect()
assert [ref() for ref in refs] == [None] * len(refs), refs
"""
    assert told(text, Forward)


# -- modes --


def test_steps_in_eval_mode_are_told_with_what_the_optimizer_holds(told: Told[SteppedWhileEvaluating]) -> None:
    (event,) = told("model.eval()\ntrain()\n", SteppedWhileEvaluating)
    assert (event.all_parameters, event.trained_before, event.idle_dropouts, event.idle_batch_norms) == (
        True,
        False,
        1,
        1,
    )
    (event,) = told("train()\nmodel.eval()\ntrain()\n", SteppedWhileEvaluating)
    assert event.trained_before
    assert event.eval_place is not None
    assert event.eval_place.line == START.count("\n") + 2
    (event,) = told("model[0].requires_grad_(False)\nmodel.eval()\ntrain()\n", SteppedWhileEvaluating)
    assert not event.all_parameters


def test_steps_of_an_optimizer_that_holds_nothing_of_the_model_are_not_told(told: Told[SteppedWhileEvaluating]) -> None:
    text = "train()\nmodel.eval()\nx.requires_grad_()\noptimizer = torch.optim.SGD([x], lr=0.1)\ntrain(3)\n"
    assert told(text, SteppedWhileEvaluating) == []


# -- schedules --


def test_a_schedule_from_its_building_to_its_end(told: Told[Event]) -> None:
    text = "train(3)\ns = lr_scheduler.CosineAnnealingLR(optimizer, T_max=7)\n"
    text += "for _ in range(4):\n    train(2)\n    s.step()\n"
    built, *steps, end = told(text, (ScheduleBuilt, ScheduleStepped, ScheduleEnded))  # type: ignore[arg-type]
    assert isinstance(built, ScheduleBuilt)
    assert (built.length, built.learning_rates) == (7, (0.01,))
    assert [(s.index, s.optimizer_steps) for s in steps if isinstance(s, ScheduleStepped)] == [
        (0, 2),
        (1, 4),
        (2, 6),
        (3, 8),
    ]
    assert isinstance(end, ScheduleEnded)
    assert (end.steps, end.optimizer_steps, end.inner) == (4, 8, False)


def test_a_schedule_inside_another_is_known_as_such(told: Told[ScheduleEnded]) -> None:
    text = """
def run():
    parts = [lr_scheduler.LinearLR(optimizer, 0.1), lr_scheduler.ExponentialLR(optimizer, 0.9)]
    whole = lr_scheduler.SequentialLR(optimizer, parts, milestones=[50])
    for _ in range(3):
        train()
        whole.step()
run()
"""
    assert [(e.name, e.steps, e.inner) for e in told(text, ScheduleEnded)] == [
        ("LinearLR", 3, True),
        ("ExponentialLR", 0, True),
        ("SequentialLR", 3, False),
    ]


def test_a_schedule_that_was_thrown_away_does_not_age(told: Told[ScheduleEnded]) -> None:
    (end,) = told("lr_scheduler.StepLR(optimizer, 1)\ntrain(5)\n", ScheduleEnded)
    assert end.optimizer_steps == 0


# -- states --


@pytest.mark.parametrize(
    ("kept", "reused"),
    [
        ("model.state_dict()", True),
        ("dict(model.state_dict())", True),
        ("{k: v.cpu() for k, v in model.state_dict().items()}", True),
        ("model.state_dict(keep_vars=True)", True),
        ("{k: v.clone() for k, v in model.state_dict().items()}", False),
        ("__import__('copy').deepcopy(model.state_dict())", False),
        ("__import__('copy').deepcopy(model).state_dict()", False),
    ],
)
def test_a_state_that_moved_on(told: Told[StateReused], kept: str, reused: bool) -> None:
    events = told(f"train()\nkept = {kept}\ntrain()\nmodel.load_state_dict(kept)\n", StateReused)
    assert [event.use for event in events] == ["load"] * reused
    assert told(f"train()\nkept = {kept}\nmodel.load_state_dict(kept)\n", StateReused) == []


def test_an_optimizer_that_writes_through_data_moves_the_weights_too(told: Told[StateReused]) -> None:
    text = """
class Old(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.data.add_(p.grad.data, alpha=-0.01)
optimizer = Old(model.parameters())
kept = model.state_dict()
train(2)
model.load_state_dict(kept)
"""
    assert len(told(text, StateReused)) == 1


# -- the run itself --


def test_the_watched_run_gives_the_very_numbers_of_the_plain_one(check: Callable[..., Checked], tmp_path: Path) -> None:
    script = START + (
        "s = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=30)\n"
        "for i in range(30):\n    model.train()\n    train()\n    s.step()\n    model.eval()\n"
        "    with torch.no_grad():\n        model(x).argmax(1)\n"
        "    kept = model.state_dict()\n    model.load_state_dict(kept)\n"
        "print([p.double().sum().item().hex() for p in model.parameters()], torch.rand(1).item())\n"
    )
    watched = check(script)
    assert not watched.verdict.failures

    def plain() -> str:
        lines: list[str] = []
        exec(compile(script, "plain", "exec"), {"print": lambda *words: lines.append(" ".join(map(str, words)))})
        return lines[-1]

    assert in_child(plain) in watched.output
