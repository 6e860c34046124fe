"""A run on disk: every event comes back as it was written, and a damaged recording is refused in one sentence."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueloop.errors import Misuse, NotARun
from trueloop.event import EVENTS, Event, Place, RunEnded, Stepped
from trueloop.run import FORMAT, Recorder, event_from, event_to, read_events, read_run

ENDED = RunEnded(3, Place("/x/train.py", 7, "main"), "finished", 1, 4, 0)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value that an annotation of an event allows."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = typing.get_type_hints(kind)
        return st.builds(kind, **{field.name: values(hints[field.name]) for field in dataclasses.fields(kind)})
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(values(k) for k in inner))
    if origin is tuple and inner[-1] is Ellipsis:
        return st.lists(values(inner[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(k) for k in inner))
    plain = {int: st.integers(), float: st.floats(), bool: st.booleans(), str: st.text(), type(None): st.none()}
    return plain[kind]


def same(one: object, other: object) -> bool:
    """Equal, where nan is nan."""
    return repr(one) == repr(other)


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS.keys())
def test_every_event_comes_back_as_it_was(kind: type[Event]) -> None:
    @given(values(kind))
    def there_and_back(event: Event) -> None:
        line = json.dumps(event_to(event), allow_nan=False)
        back = event_from(json.loads(line))
        assert same(back, event)
        assert type(back) is kind

    there_and_back()


def test_a_recorded_run_is_read_in_its_order(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    events = [dataclasses.replace(ENDED, step=step) for step in range(3)]
    for event in events:
        recorder.write(event)
    assert list(read_events(tmp_path / "run")) == events, (
        "a killed run must lose nothing: each line is written out at once"
    )
    recorder.close({"script": "train.py", "reason": "finished"})
    about = read_run(tmp_path / "run")
    assert (about["script"], about["format"]) == ("train.py", FORMAT)
    assert about["trueloop"]


def test_a_run_is_never_written_over_another(tmp_path: Path) -> None:
    with Recorder(tmp_path):
        pass
    with pytest.raises(Misuse, match=r"already holds a recorded run\. Nothing was run"):
        Recorder(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misuse, match="cannot be written"):
        Recorder(tmp_path / "file" / "run")


def test_a_full_disk_ends_the_recording_and_not_the_run(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder._events.close()
    with Path("/dev/full").open("w", buffering=1) as full:
        recorder._events = full
        recorder.write(ENDED)
        recorder.write(ENDED)
        assert "ended early: No space left on device" in recorder.failure
        recorder.close({})


def recorded(folder: Path, *lines: str) -> Path:
    (folder / "events.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


GOOD = json.dumps(event_to(ENDED)) + "\n"


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    assert list(read_events(recorded(tmp_path, GOOD, GOOD[:20]))) == [ENDED]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{nonsense\n", ":2 is damaged"),
        ('{"event": "Teleported", "step": 1}\n', ":2 holds an unknown event .'Teleported'."),
        ('{"event": "RunEnded", "step": 1}\n', ":2 holds an unknown event"),
        (GOOD.replace('"step"', '"shade"'), ":2 holds an unknown event"),
        ("[1]\n", ":2 "),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(NotARun, match=said):
        list(read_events(recorded(tmp_path, GOOD, line, GOOD)))


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(NotARun, match="is damaged"):
        list(read_events(tmp_path))


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotARun, match="There is no folder"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(NotARun, match=r"has no events\.jsonl"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps({"format": FORMAT + 1}), "newer trueloop"),
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"format": null}', "is damaged"),
    ],
)
def test_a_newer_or_damaged_run_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (recorded(tmp_path) / "run.json").write_text(text)
    with pytest.raises(NotARun, match=said):
        read_run(tmp_path)


def test_a_killed_run_has_no_run_json_and_can_be_read(tmp_path: Path) -> None:
    assert read_run(recorded(tmp_path, GOOD)) == {}


def test_numbers_that_are_none_are_written_as_words() -> None:
    kind = typing.get_type_hints(Stepped)
    event = Stepped(**{name: _any(hint) for name, hint in kind.items()})
    odd = dataclasses.replace(event, learning_rates=(float("nan"), float("inf")))
    assert event_to(odd)["learning_rates"] == ["nan", "inf"]
    assert same(event_from(event_to(odd)), odd)


def _any(hint: Any) -> Any:
    """The plainest value of an annotation."""
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)[0]
    return {int: 0, str: "", bool: False}.get(hint, () if typing.get_origin(hint) is tuple else None)
