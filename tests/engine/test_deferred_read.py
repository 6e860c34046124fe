"""What a device is asked now and answers later: the answer is of when it was asked, and the lines of metrics are the
same lines."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from tests.engine.test_cuda_graphs import RECIPE, Counting, played, poisoned
from trueloop.checkpoint.store import Memory
from trueloop.engine.nonfinite_guard import DeferredRead, Guard, LossSummary
from trueloop.engine.programs.graph_recorder import Work
from trueloop.engine.train import train


def guard(model: nn.Module | None = None) -> Guard:
    model = model or nn.Linear(2, 2)
    made = Guard(torch.optim.AdamW(model.parameters(), fused=True), torch.device("cpu"), model)
    made.on_device = True
    made.buffers.ignore_versions()
    return made


def test_a_question_gives_the_numbers_it_was_given() -> None:
    assert DeferredRead(torch.tensor([1.0, 0.5])).values() == [1.0, 0.5]


def test_an_answer_is_of_the_steps_before_the_question() -> None:
    asked = guard()
    asked.add_replayed(torch.tensor([1.0, 0.0, 3.0]), torch.tensor([0.0, 1.0, 0.0]), [(0, 0), (0, 1), (0, 2)])
    asked.start_read(torch.tensor(7.0))
    assert [asked.reading] == [True]
    asked.add_replayed(torch.tensor([10.0, 0.0]), torch.tensor([0.0, 1.0]), [(0, 3), (0, 4)])
    assert asked.finish_read() == [(0, 1)]
    assert [asked.reading] == [False]
    assert asked.take_summary() == LossSummary(4.0, 2, 7.0)
    assert asked.take_summary() is None  # told once
    assert asked.take_skipped() == [(0, 4)]
    assert asked.losses() == (10.0, 1)


def test_whoever_must_know_hears_everything_at_once() -> None:
    asked = guard()
    asked.add_replayed(torch.tensor([0.0]), torch.tensor([1.0]), [(0, 0)])
    asked.start_read(torch.tensor(1.0))
    asked.add_replayed(torch.tensor([0.0]), torch.tensor([1.0]), [(0, 1)])
    assert asked.take_skipped() == [(0, 0), (0, 1)]
    assert asked.take_summary() == LossSummary(0.0, 0, 1.0)


def test_a_question_makes_room_for_more_steps() -> None:
    asked = guard()
    before = asked.room
    asked.add_replayed(torch.zeros(3), torch.zeros(3), [(0, 0), (0, 1), (0, 2)])
    assert asked.room == before - 3
    asked.start_read(torch.tensor(1.0))
    assert asked.room == before


def test_a_guard_that_is_restored_forgets_what_it_has_asked() -> None:
    asked = guard()
    state = asked.state()
    asked.add_replayed(torch.zeros(1), torch.ones(1), [(0, 0)])
    asked.start_read(torch.tensor(1.0))
    asked.restore(state)
    assert not asked.reading
    assert asked.take_skipped() == []
    assert asked.take_summary() is None


@pytest.mark.parametrize("spoiled", [False, True])
def test_running_statistics_are_those_of_when_all_was_known_to_be_well(spoiled: bool) -> None:
    model = nn.BatchNorm1d(2)
    asked = guard(model)
    mean = model.running_mean
    assert mean is not None
    mean.fill_(1.0)
    asked.add_replayed(torch.zeros(1), torch.zeros(1), [(0, 0)])
    asked.start_read(torch.tensor(1.0))
    mean.fill_(2.0)  # by steps after the question
    assert asked.finish_read() == []
    asked.add_replayed(torch.zeros(1), torch.tensor([float(spoiled)]), [(0, 1)])
    mean.fill_(math.nan if spoiled else 3.0)
    asked.take_skipped()
    assert mean.tolist() == ([1.0, 1.0] if spoiled else [3.0, 3.0])


class Telling(Counting):
    """Tells of each stretch that is played."""

    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self.events = events

    def record(self, work: Work) -> Work:
        play = super().record(work)

        def tell() -> None:
            self.events.append("play")
            play()

        return tell


def test_the_device_has_its_next_stretch_before_it_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    answer, ask = DeferredRead.values, Guard.start_read

    def heard(self: DeferredRead) -> list[float]:
        events.append("heard")
        return answer(self)

    def asking(self: Guard, norm: Tensor) -> None:
        events.append("ask")
        ask(self, norm)

    monkeypatch.setattr(DeferredRead, "values", heard)
    monkeypatch.setattr(Guard, "start_read", asking)
    loop, kept = played(RECIPE, Telling(events))
    train(loop)
    asked = [number for number, event in enumerate(events) if event == "ask"]
    assert len(asked) > 6
    for number in asked[1:]:  # the first line is of steps that are looked into, one by one
        assert events[number + 1 : number + 3] == ["play", "heard"]
    steps = [row.step for row in kept.rows if row.kind == "train"]
    assert steps == sorted({*range(10, 114, 10), 114})


def test_a_run_that_stops_at_a_number_that_is_none_has_not_learned_from_it() -> None:
    store = Memory()
    loop, kept = played(replace(RECIPE, data=poisoned, on_nonfinite="stop", statistics_every=0), store=store)
    ending = train(loop)
    assert ending.reason == "nonfinite"
    assert "It did not reach the weights" in ending.message
    assert all(torch.isfinite(value).all() for value in loop.parts.model.state_dict().values())
    assert [row.step for row in kept.rows if row.kind == "train" and math.isnan(row.values["loss"])] == []
