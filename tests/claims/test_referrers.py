"""Who keeps a thing alive, in words: globals, locals, attributes, containers in containers; and the line that puts it
there."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trueloop.claims.referrers import Holder, holder_of, line_that_stores


class Thing:
    """Something with an identity that the collector sees."""

    def __init__(self) -> None:
        self.part: list[int] = []


@pytest.fixture
def script() -> Iterator[ModuleType]:
    """A module that stands for the user's script."""
    made = ModuleType("a_users_script")
    sys.modules[made.__name__] = made
    gc.unfreeze()
    yield made
    del sys.modules[made.__name__]


def held(thing: Any, *passed_over: Any) -> Holder:
    return holder_of(thing, [], passed_over)


def test_a_list_of_a_module(script: ModuleType) -> None:
    script.losses = [Thing()]  # type: ignore[attr-defined]
    found = held(script.losses[0])
    assert found.name == "losses"
    assert found.words == "the list `losses` of the module a_users_script"
    assert not found.bounded


def test_a_variable_of_a_module(script: ModuleType) -> None:
    script.latest = Thing()  # type: ignore[attr-defined]
    assert held(script.latest).words == "the variable `latest` of the module a_users_script"


def test_a_list_in_a_dict_in_an_attribute(script: ModuleType) -> None:
    class Logger:
        def __init__(self) -> None:
            self.history = {"loss": [Thing()]}

    script.logger = Logger()  # type: ignore[attr-defined]
    found = held(script.logger.history["loss"][0])
    assert found.name == "history"
    assert found.words.startswith("the dict `history` of a ")


def test_a_class_attribute(script: ModuleType) -> None:
    class Cache:
        kept: list[Thing] = []

    Cache.kept.append(Thing())
    script.Cache = Cache  # type: ignore[attr-defined]
    found = held(Cache.kept[0])
    assert found.name == "kept"


def test_a_deque_that_lets_the_oldest_go_is_bounded(script: ModuleType) -> None:
    script.buffer = deque([Thing()], maxlen=4)  # type: ignore[attr-defined]
    assert held(script.buffer[0]).bounded
    script.buffer = deque([Thing()])  # type: ignore[attr-defined]
    assert not held(script.buffer[0]).bounded


def test_a_local_of_a_frame(script: ModuleType) -> None:
    def train() -> Holder:
        losses = [Thing()]
        return holder_of(losses[0], [sys._getframe()], [])

    found = train()
    assert found.name == "losses"
    assert found.words.startswith("the list `losses` of ")
    assert found.words.endswith("train()")


def test_our_own_containers_are_passed_over(script: ModuleType) -> None:
    ours = [Thing()]
    script.theirs = [ours[0]]  # type: ignore[attr-defined]
    assert held(ours[0], ours).name == "theirs"


def test_what_has_no_name_is_said_to_have_none() -> None:
    gc.unfreeze()
    thing = Thing()
    found = holder_of(thing, [], [sys._getframe()])
    assert found.name in ("", "thing")


TEXT = """\
losses = []
total = 0
seen = {}
model.outputs = []
for step in range(10):
    loss = model(step)
    losses.append(loss)
    total = total + loss
    seen[step] = loss
    model.outputs += [loss]
    first = loss
    both.append(loss)
    both.extend([loss])
"""


@pytest.mark.parametrize(
    ("name", "line"), [("losses", 7), ("total", 8), ("seen", 9), ("outputs", 10), ("first", None), ("both", None)]
)
def test_the_line_that_puts_something_there(tmp_path: Path, name: str, line: int | None) -> None:
    file = tmp_path / "train.py"
    file.write_text(TEXT, encoding="utf-8")
    found = line_that_stores(name, str(file))
    assert (found.line if found else None) == line
