"""A script is run under watch, and what an observer emitted of it comes back."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.conftest import in_child
from trueloop.doctor.examine import examine
from trueloop.doctor.launch import find_script
from trueloop.doctor.watch import Watch
from trueloop.event import Event

E = TypeVar("E", bound=Event)


@pytest.fixture
def told(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, type[E]], list[E]]:
    """The events of one kind that a script gives: it goes on from its test file's START, under the rules of SELECT
    there, or under all."""

    def run(text: str, kind: type[E]) -> list[E]:
        (tmp_path / "train.py").write_text(request.module.START + text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)

        def work() -> bytes:
            heard: list[Any] = []
            watch = Watch(script="train.py", select=getattr(request.module, "SELECT", ()))
            emit = watch._bus.emit

            def hear(event: Event) -> None:
                heard.append(event)
                emit(event)

            watch._bus.emit = hear
            verdict, error = examine(find_script("train.py", ()), watch)
            assert error is None, error
            assert not verdict.failures, verdict.failures
            return pickle.dumps([event for event in heard if isinstance(event, kind)])

        events: list[E] = pickle.loads(in_child(work))
        return events

    return run
