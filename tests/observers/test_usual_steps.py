"""On most steps observers that would return at once are not called; no event may depend on that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from trueloop.doctor.watch import Watch
from trueloop.event import Event, StepProgram
from trueloop.observers.assemble import all_observers
from trueloop.results.check import Tally
from trueloop.taps.bus import Bus
from trueloop.taps.calls import TOPICS


def train() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows, criterion = torch.randn(64, 6), nn.CrossEntropyLoss()
    labels = rows[:, :3].argmax(1)
    for step in range(30):
        model.train()
        for part in torch.randperm(64).split(32):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            criterion(model(rows[part]), labels[part]).backward()
            optimizer.step()
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                criterion(model(rows + 1), labels)


def events() -> list[Event]:
    """What one run emits, without the addresses of freed tensors, which are used again."""
    seen: list[Event] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tally, "hear", lambda _, event: seen.append(event))
        with Watch() as watch:
            train()
    assert not watch._bus.failures
    return [
        replace(event, values=tuple(replace(value, memory=0) for value in event.values))
        if isinstance(event, StepProgram)
        else event
        for event in seen
    ]


def test_events_are_those_of_a_run_that_calls_every_observer(monkeypatch: pytest.MonkeyPatch) -> None:
    sparing, publish, saved = events(), Bus.publish, []

    def publish_to_all(bus: Bus, topic: str, subject: Any) -> None:
        usual = bus._usual
        saved.append(len(bus._subscribers[topic]) - len(usual[topic]))
        bus._usual = bus._subscribers
        try:
            publish(bus, topic, subject)
        finally:
            bus._usual = usual

    monkeypatch.setattr(Bus, "publish", publish_to_all)
    assert events() == sparing
    assert sum(saved) > 1000


def test_every_topic_that_an_observer_needs_rarely_is_one_of_its_own() -> None:
    for observer in all_observers():
        assert all(topic in TOPICS and hasattr(observer, topic) for topic in observer.rarely), observer
