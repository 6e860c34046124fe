"""Saves go on behind the training's back, but nothing that goes wrong with them does."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, final

import pytest
import torch

from trueloop.checkpoint.contents import Contents
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.saver import Saver
from trueloop.checkpoint.store import Memory, Store, Writer
from trueloop.errors import CannotSave


def contents(step: int, best: int | None = None) -> Contents:
    return Contents({"step": step, "best_step": best}, {"model": {"weight": torch.full((2,), float(step))}})


@final
class Slow(Store):
    """Writes when it is allowed to, and fails when it is told to."""

    def __init__(self) -> None:
        self.inner, self.go_on = Memory(), threading.Event()
        self.failure: BaseException | None = None

    def names(self) -> list[str]:
        return self.inner.names()

    def begin(self, name: str) -> None:
        assert self.go_on.wait(10)
        if self.failure is not None:
            raise self.failure
        self.inner.begin(name)

    def put(self, name: str, file: str, writer: Writer) -> dict[str, Any]:
        return self.inner.put(name, file, writer)

    def seal(self, name: str, about: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> str:
        return self.inner.seal(name, about, files)

    def abandon(self, name: str) -> None:
        self.inner.abandon(name)

    def manifest(self, name: str) -> dict[str, Any]:
        return self.inner.manifest(name)

    def read(self, name: str, file: str) -> bytes:
        return self.inner.read(name, file)

    def remove(self, name: str) -> None:
        self.inner.remove(name)

    def where(self, name: str) -> str:
        return self.inner.where(name)


def test_the_training_does_not_wait_for_the_disk() -> None:
    slow, told = Slow(), list[tuple[int, str]]()
    saver = Saver(slow, 2, lambda step, path: told.append((step, path)))
    saver.save(contents(1))
    saver.check()
    assert slow.names() == []
    assert told == []
    slow.go_on.set()
    saver.finish()
    assert slow.names() == [name_of(1)]
    assert told == [(1, "memory:step-00000001")]


def test_one_save_at_a_time_and_in_order() -> None:
    store = Memory()
    saver = Saver(store, 10)
    for step in range(1, 6):
        saver.save(contents(step))
    saver.finish()
    assert store.names() == [name_of(step) for step in range(1, 6)]


def test_the_best_and_the_last_stay() -> None:
    store = Memory()
    saver = Saver(store, 2)
    for step, best in ((1, 1), (2, 2), (3, 2), (4, 2), (5, 2)):
        saver.save(contents(step, best))
    saver.finish()
    assert store.names() == [name_of(2), name_of(4), name_of(5)]
    assert store.best() == name_of(2)


@pytest.mark.parametrize("heard", ["save", "check", "finish"])
def test_what_went_wrong_is_raised_at_the_next_occasion_once(heard: str) -> None:
    slow = Slow()
    slow.failure = CannotSave("the disk is full")
    slow.go_on.set()
    saver = Saver(slow, 2)
    saver.save(contents(1))
    assert saver._thread is not None
    saver._thread.join()
    occasions = {"save": lambda: saver.save(contents(2)), "check": saver.check, "finish": saver.finish}
    with pytest.raises(CannotSave, match="the disk is full"):
        occasions[heard]()
    slow.failure = None
    saver.save(contents(3))
    saver.finish()
    assert slow.names() == [name_of(3)]


def test_an_error_of_another_kind_becomes_a_sentence_with_its_cause() -> None:
    slow = Slow()
    slow.failure = MemoryError("no room")
    slow.go_on.set()
    saver = Saver(slow, 2)
    saver.save(contents(1))
    with pytest.raises(CannotSave, match="MemoryError") as caught:
        saver.finish()
    assert caught.value.__cause__ is slow.failure


def test_copies_have_arrived_before_they_are_written() -> None:
    order: list[str] = []
    store = Memory()
    late = Contents({"step": 1}, {}, {}, lambda: order.append("arrived"))
    saver = Saver(store, 1, lambda *_: order.append("written"))
    saver.save(late)
    saver.finish()
    assert order == ["arrived", "written"]


def test_who_leaves_at_once_does_not_wait_for_the_disk() -> None:
    slow = Slow()
    saver = Saver(slow, 1)
    saver.save(contents(1))
    assert saver._thread is not None
    assert saver._thread.daemon
    slow.go_on.set()
    saver.finish()


# -- several that save together --


@final
class Ours:
    """What one of two processes saves; `failure`: how it ends for this one."""

    def __init__(self, step: int, failure: BaseException | None = None, *, first: bool = True) -> None:
        self.about, self.first, self.failure = {"step": step, "best_step": None}, first, failure

    def write(self, store: Store, name: str) -> str:
        if self.failure is not None:
            raise self.failure
        return store.write(name, self.about, {})


def test_what_failed_for_another_is_raised_here_too() -> None:
    saver = Saver(Memory(), 2, any_failed=lambda _: True)
    with pytest.raises(CannotSave, match="Another process could not write a checkpoint"):
        saver.check()


def test_a_failure_that_the_others_have_not_seen_yet_waits_for_the_next_look() -> None:
    votes = list[bool]()

    def any_of(failed: bool) -> bool:
        votes.append(failed)
        return len(votes) > 2 and failed

    saver = Saver(Memory(), 2, any_failed=any_of)
    saver.save(Ours(1, CannotSave("full")))
    saver._join()
    saver.check()
    with pytest.raises(CannotSave, match="full"):
        saver.check()
    assert votes == [False, True, True]


def test_of_many_a_message_that_has_not_come_is_raised_as_it_is() -> None:
    saver = Saver(Memory(), 2, any_failed=lambda failed: failed)
    saver.save(Ours(1, RuntimeError("connection closed by peer")))
    with pytest.raises(RuntimeError, match="connection closed"):
        saver.finish()


def test_only_the_first_removes_what_is_superfluous() -> None:
    for first, kept in ((True, [name_of(3)]), (False, [name_of(1), name_of(2), name_of(3)])):
        store = Memory()
        saver = Saver(store, 1, any_failed=lambda failed: failed)
        for step in (1, 2, 3):
            saver.save(Ours(step, first=first))
        saver.finish()
        assert store.names() == kept
