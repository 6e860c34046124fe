"""All forms in turns: their order, what a failure costs, and that a real process takes part."""

from __future__ import annotations

from typing import Any

import pytest

from trueloop.bench.form import FormSpec
from trueloop.bench.measure import FormFailed, FormHost, WorkerProcess, bench, machine


class FakeHolder(FormHost):
    """Answers with made-up times, and remembers its turns."""

    def __init__(self, asked: FormSpec, turns: list[tuple[str, int, float]]) -> None:
        self.asked, self.turns, self.closed = asked, turns, False

    def open(self) -> dict[str, Any]:
        if self.asked.folder == "damaged":
            raise FormFailed("it is damaged")
        return {"runtime": "fake 1", "bytes": 10, "opened": 0.25}

    def turn(self, batch: int, seconds: float) -> list[float]:
        if self.asked.folder == "small" and batch > 4:
            raise FormFailed("4 at most")
        self.turns.append((self.asked.name, batch, seconds))
        return [batch * 0.001, batch * 0.003]

    def close(self) -> None:
        self.closed = True


def _asked(*folders: str) -> list[FormSpec]:
    return [FormSpec("artifact", folder, folder) for folder in folders]


def _measured(
    forms: list[FormSpec], *batches: int, rounds: int = 2
) -> tuple[Any, list[tuple[str, int, float]], list[FakeHolder]]:
    turns: list[tuple[str, int, float]] = []
    holders: list[FakeHolder] = []

    def holder(asked: FormSpec, threads: int) -> FormHost:
        holders.append(FakeHolder(asked, turns))
        return holders[-1]

    return bench(forms, batches, seconds=1.0, rounds=rounds, threads=3, host=holder, notes=["told"]), turns, holders


def test_forms_take_turns_and_the_order_moves_on() -> None:
    _, turns, _ = _measured(_asked("a", "b", "c"), 1, rounds=3)
    assert "".join(name for name, _, _ in turns) == "abc" + "bca" + "cab"
    assert [seconds for _, _, seconds in turns] == pytest.approx([1 / 3] * 9)


def test_every_batch_has_all_rounds_of_all_forms() -> None:
    told, turns, _ = _measured(_asked("a", "b"), 1, 8)
    assert [batch for _, batch, _ in turns] == [1] * 4 + [8] * 4
    assert [[pace.batch for pace in form.paces] for form in told.forms] == [[1, 8], [1, 8]]
    assert told.forms[0].paces[1].calls == 4
    assert told.forms[0].paces[1].p50 == 0.008
    assert told.forms[0].paces[1].p99 == 0.024
    assert (told.rounds, told.seconds, told.notes) == (2, 1.0, ("told",))


def test_a_form_that_cannot_be_opened_is_told_and_the_others_go_on() -> None:
    told, _, holders = _measured(_asked("damaged", "b"), 1)
    assert [(form.name, form.failed, len(form.paces)) for form in told.forms] == [
        ("damaged", "it is damaged", 0),
        ("b", "", 1),
    ]
    assert all(holder.closed for holder in holders)


def test_a_batch_that_a_form_does_not_take_costs_it_that_batch_alone() -> None:
    told, turns, _ = _measured(_asked("small", "b"), 8, 2)
    small = told.forms[0]
    assert small.failed == "batch 8: 4 at most"
    assert [pace.batch for pace in small.paces] == [2]
    assert ("b", 8, 0.5) in turns


def test_all_processes_are_closed_when_somebody_interrupts() -> None:
    holders: list[FakeHolder] = []

    class Interrupting(FormHost):
        def open(self) -> dict[str, Any]:
            raise KeyboardInterrupt

        def turn(self, batch: int, seconds: float) -> list[float]:
            return []

    def holder(asked: FormSpec, threads: int) -> FormHost:
        if asked.name == "b":
            return Interrupting()
        holders.append(FakeHolder(asked, []))
        return holders[-1]

    with pytest.raises(KeyboardInterrupt):
        bench(_asked("a", "b"), [1], host=holder)
    assert [each.closed for each in holders] == [True]


def test_a_real_process_says_what_it_cannot_open() -> None:
    process = WorkerProcess(FormSpec("artifact", "no-such-folder", "none"), 1)
    try:
        with pytest.raises(FormFailed, match="no-such-folder is not an artifact"):
            process.open()
    finally:
        process.close()


def test_a_process_that_is_gone_is_told_by_its_signal() -> None:
    process = WorkerProcess(FormSpec("artifact", "no-such-folder", "none"), 1)
    process.process.kill()
    process.process.wait()
    try:
        with pytest.raises(FormFailed, match="killed by signal 9"):
            process.open()
    finally:
        process.close()


def test_the_machine_is_named_with_its_versions() -> None:
    here = machine(2)
    assert here["threads"] == 2
    assert here["processor"]
    assert {"trueloop", "python", "torch"} <= set(here["versions"])
    assert here["device"] == "cpu"


def test_a_bench_says_on_which_device_its_forms_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.export.device.gpu_label", lambda device: f"{device} (a GPU)")
    told, _, _ = _measured([FormSpec("artifact", "a", "a", device="cuda")], 1)
    assert told.machine["device"] == "cuda (a GPU)"
    assert told.how[1].startswith(
        "All on cuda (a GPU), in fp32 with TF32 off; a call includes both copies, host to device and back"
    )
