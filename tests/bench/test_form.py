"""One form in this process: how a call is timed, and what a worker answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.export.made import run_here, subject
from trueloop.bench.form import LEAST, WARM, FormSpec, OpenForm, open_form, time_calls
from trueloop.bench.worker import answers
from trueloop.errors import BadArtifact
from trueloop.export.catalogue import find_exporter
from trueloop.export.export_model import export_model
from trueloop.export.exporter import Array, FakeRunner
from trueloop.results.artifact import Port

ASKED = FormSpec("artifact", "somewhere", "made up")


def _clock(*seconds: float) -> tuple[Callable[[], None], Callable[[], float]]:
    """A call that takes these times, one after the other, and the clock that sees it."""
    now, left = [0.0], iter(seconds)

    def call() -> None:
        now[0] += next(left)

    return call, lambda: now[0]


def test_each_call_is_timed_until_the_seconds_are_over() -> None:
    call, clock = _clock(1.0, 2.0, 3.0, 4.0)
    assert time_calls(call, 5.5, clock) == [1.0, 2.0, 3.0]


def test_a_slow_form_is_called_a_few_times_all_the_same() -> None:
    call, clock = _clock(*[60.0] * 10)
    assert time_calls(call, 0.1, clock) == [60.0] * LEAST


def _form(seen: list[int], refuses: int = 0) -> Callable[[FormSpec], OpenForm]:
    def answer(rows: Array) -> list[Array]:
        if len(rows) == refuses:
            raise RuntimeError("too many")
        seen.append(len(rows))
        return [rows]

    return lambda _: OpenForm("made-up 1.0", 12, (Port("input", "float32", (None, 2)),), {}, FakeRunner(answer))


def _lines(*batches: int) -> Iterator[str]:
    yield json.dumps({"form": ASKED.plain()})
    for batch in batches:
        yield json.dumps({"batch": batch, "seconds": 0.0})


def test_a_worker_opens_answers_once_and_then_takes_its_turns() -> None:
    seen: list[int] = []
    first, *turns = answers(_lines(4, 4), _form(seen))
    assert (first["runtime"], first["bytes"]) == ("made-up 1.0", 12)
    assert first["opened"] >= 0
    assert [len(turn["seconds"]) for turn in turns] == [LEAST, LEAST]
    assert seen == [1] + [4] * (WARM + 2 * LEAST), "the warm-up is apart, and only before the first turn"


def test_a_worker_that_cannot_take_a_batch_says_so_and_takes_others() -> None:
    told = list(answers(_lines(8, 2), _form([], refuses=8)))
    assert told[1] == {"failed": "RuntimeError: too many"}
    assert "seconds" in told[2]


def test_a_worker_that_cannot_open_says_why() -> None:
    def broken(asked: FormSpec) -> OpenForm:
        raise BadArtifact(f"{asked.folder} is damaged.")

    assert list(answers(_lines(), broken)) == [{"failed": "somewhere is damaged."}]


def test_a_form_travels_as_plain_values() -> None:
    asked = FormSpec("eager", "runs/a", "eager", {"recipe": "digits", "arguments": {}, "settings": {}}, "data")
    assert FormSpec(**json.loads(json.dumps(asked.plain()))) == asked


def test_an_artifact_is_opened_and_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
    made = export_model(subject(), find_exporter("onnx"), tmp_path / "made")
    form = open_form(FormSpec("artifact", str(made.folder), "onnx"))
    assert form.runtime.startswith("onnxruntime ")
    assert form.bytes == made.file.stat().st_size
    answered = form.call(5)()
    assert isinstance(answered, list)
    assert answered[0].shape == (5, 3)
