"""The profile of a run, its trace, and the trace as a download."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ui.conftest import Client
from tests.ui.folders import make_run
from trueloop.errors import NotARun
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.pages import profile

MODULES = [{"name": "1", "activations": 20}, {"name": "0", "activations": 10}]
MEMORY = {"parameters": 4, "gradients": 4, "optimizer": 8, "buffers": 1}
CONTENT: dict[str, Any] = {
    "machine": {"name": "a processor"},
    "timeline": [{"lane": "host", "name": "forward", "start": 0, "end": 1}] * 4000,
    "modules": MODULES,
    "memory": MEMORY,
    "operations": 5,
}


def event(name: str, start: float, length: float, kind: str = "cpu_op") -> dict[str, Any]:
    return {"ph": "X", "cat": kind, "name": name, "ts": start, "dur": length}


TRACE = {"traceEvents": [
    event("nn: 0", 1e6, 10, "user_annotation"), event("nn: 1", 1e6 + 20, 10, "user_annotation"),
    event("aten::linear", 1e6, 5), {"ph": "X", "name": "damaged"}, 5, event("other", 0, 1, "python_function"),
]}  # fmt: skip


def page(folder: Path, profiled: object = None, trace: object = None) -> dict[str, Any]:
    run = make_run(folder, "a", [], script="train.py")
    for name, content in (("profile.json", profiled), ("trace.json", trace)):
        if content is not None:
            (run / name).write_text(json.dumps(content))
    return profile.data(Library(folder), Query([("run", "a")]))


def test_without_a_profile_the_command_is_shown(tmp_path: Path) -> None:
    found = page(tmp_path)
    assert found["profile"] is None
    files = "--output runs/a/profile.json --trace runs/a/trace.json"
    assert found["command"] == f"trueloop profile --format json {files} train.py"


def test_a_profile_is_bounded(tmp_path: Path) -> None:
    found = page(tmp_path, CONTENT)
    assert len(found["profile"]["timeline"]) == 3000
    assert found["profile"]["operations"] == []
    assert found["memory"] is None


def test_spans_and_memory_of_a_trace(tmp_path: Path) -> None:
    found = page(tmp_path, CONTENT, TRACE)
    assert [span[:2] for span in found["trace"]["spans"]] == [
        ["modules", "0"], ["operations", "linear"], ["modules", "1"],
    ]  # fmt: skip
    assert found["memory"]["names"] == [
        *("start", "0 forward", "1 forward", "1 backward", "0 backward", "optimizer step")
    ]
    assert found["memory"]["bytes"] == [13, 23, 43, 25, 17, 17]


@pytest.mark.parametrize("trace", [{"traceEvents": 5}, "text", [], {}])
def test_a_damaged_trace(tmp_path: Path, trace: object) -> None:
    assert page(tmp_path, CONTENT, trace)["trace"]["spans"] == []


def test_another_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotARun, match="not a result of `trueloop profile`"):
        page(tmp_path, [1])


def test_the_trace_is_downloaded(client: Client, tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [])
    (run / "trace.json").write_text("{}")
    make_run(tmp_path, "b", [])
    (tmp_path / "b" / "trace.json").symlink_to(run / "trace.json")
    answer = client(tmp_path).get("/api/trace?run=a")
    assert answer.content == b"{}"
    assert answer.headers["content-disposition"] == 'attachment; filename="trace.json"'
    for name in ("b", "none", "..", ""):
        assert client(tmp_path).get(f"/api/trace?run={name}").status_code == 404
