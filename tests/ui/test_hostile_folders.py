"""Run folders from strangers: shown as text, read in bounds, harming nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.ui.conftest import Client
from tests.ui.folders import make_run, row
from trueloop.ui.page_list import PAGES

HTML = "<img src=x onerror=alert(1)>"


def answers(client: Client, folder: Path, name: str) -> dict[str, str]:
    """What every page says of a run; no page may fail."""
    texts = {}
    for page in PAGES:
        answer = client(folder).get(f"/api/{page.name}", params={"run": name})
        assert answer.status_code in (200, 404), page.name
        assert answer.headers["content-type"] == "application/json"
        texts[page.name] = answer.text
    return texts


def listed(client: Client, folder: Path) -> dict[str, dict[str, object]]:
    return {run["name"]: run for run in client(folder).get("/api/runs").json()["runs"]}


@pytest.mark.parametrize("name", [HTML, "a b", "ünï", "%41", "a?b#c&d", "..a", "-rf", "\n", "'\"`", "日本"])
def test_names_are_data(client: Client, tmp_path: Path, name: str) -> None:
    make_run(tmp_path, name.replace("/", "_"))
    run = listed(client, tmp_path)[name]
    answer = client(tmp_path).get(f"/api/run?run={run['id']}")
    assert answer.status_code == 200
    assert answer.json()["row"]["name"] == name


def test_a_name_that_is_not_utf8(client: Client, tmp_path: Path) -> None:
    make_run(tmp_path, os.fsdecode(b"bad\xff"))
    (run,) = client(tmp_path).get("/api/runs").json()["runs"]
    assert run["id"] == "bad%FF"
    assert client(tmp_path).get(f"/api/run?run={run['id']}").status_code == 200


@pytest.mark.parametrize("name", ["..", ".", "", "../x", "/etc", "a/../..", "a\0", "x" * 5000, "none"])
def test_only_runs_of_the_folder_are_found(client: Client, tmp_path: Path, name: str) -> None:
    make_run(tmp_path / "runs", "a")
    (tmp_path / "run.json").write_text('{"secret": 1}')
    for page in ("run", "curves"):
        answer = client(tmp_path / "runs").get(f"/api/{page}", params={"run": name})
        assert answer.status_code == 404
        assert "secret" not in answer.text


@pytest.mark.parametrize("file", ["run.json", "metrics.jsonl", "report.json", "console.log", "lock"])
def test_links_are_not_followed(client: Client, tmp_path: Path, file: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text(json.dumps({"kind": "train", "secret": "hunter2", "findings": [{"message": "hunter2"}]}) + "\n")
    run = make_run(tmp_path / "runs", "a")
    (run / file).unlink(missing_ok=True)
    (run / file).symlink_to(secret)
    assert not any("hunter2" in text for text in answers(client, tmp_path / "runs", "a").values())


def test_a_run_that_is_a_link_is_listed_and_not_followed(client: Client, tmp_path: Path) -> None:
    make_run(tmp_path / "elsewhere", "secret", status="hunter2", message="hunter2")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a").symlink_to(tmp_path / "elsewhere" / "secret")
    assert listed(client, tmp_path / "runs")["a"]["status"] == "damaged"
    texts = answers(client, tmp_path / "runs", "a")
    assert not any("hunter2" in text for text in texts.values())


@pytest.mark.parametrize("file", ["run.json", "metrics.jsonl", "report.json", "console.log", "lock"])
def test_a_pipe_is_not_waited_for(client: Client, tmp_path: Path, file: str) -> None:
    run = make_run(tmp_path, "a")
    (run / file).unlink(missing_ok=True)
    os.mkfifo(run / file)
    answers(client, tmp_path, "a")


@pytest.mark.parametrize("file", ["run.json", "metrics.jsonl", "report.json", "console.log", "lock"])
def test_a_folder_in_the_place_of_a_file(client: Client, tmp_path: Path, file: str) -> None:
    run = make_run(tmp_path, "a")
    (run / file).unlink(missing_ok=True)
    (run / file).mkdir()
    answers(client, tmp_path, "a")


DAMAGE: dict[str, bytes] = {
    "empty": b"",
    "half": b'{"kind": "train", "rec',
    "binary": bytes(range(256)) * 50,
    "deep": b"[" * 200_000,
    "deep map": b'{"a":' * 100_000,
    "nul": b"\0" * 1000,
    "number": b"7",
    "null": b"null",
    "list": b"[1, 2, 3]",
    "nan": b'{"kind": "train", "best": NaN, "started": Infinity, "recipe": {"lr": NaN}}',
    "huge number": b'{"kind": "train", "started": 1' + b"0" * 5000 + b"}",
    "wrong types": b'{"kind": [], "recipe": 3, "started": "x", "metric": {}, "status": [], "machine": 1, "step": "z"}',
    "findings": b'{"kind": "train", "findings": [1, null, {"severity": [], "line": "x", "evidence": 3, "fix": {}}]}',
    "html": json.dumps({"kind": HTML, "recipe": {"name": HTML, HTML: HTML}, "message": HTML, "metric": HTML}).encode(),
    "surrogate": b'{"kind": "train", "message": "\\ud800", "recipe": {"name": "\\udfff"}}',
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", ["run.json", "metrics.jsonl", "report.json", "console.log"])
def test_damaged_files_are_shown_as_damaged(client: Client, tmp_path: Path, file: str, damage: str) -> None:
    run = make_run(tmp_path, "a")
    (run / file).write_bytes(DAMAGE[damage])
    make_run(tmp_path, "b")
    answers(client, tmp_path, "a")
    found = listed(client, tmp_path)
    assert set(found) == {"a", "b"}
    assert found["b"]["status"] == "finished"
    both = client(tmp_path).get("/api/compare?run=a&run=b")
    assert both.status_code in (200, 404)


def test_a_huge_file_is_not_read_whole(client: Client, tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    with (run / "run.json").open("wb") as file:
        file.truncate(5 << 30)  # sparse: takes no room on the disk
    with (run / "console.log").open("wb") as file:
        file.truncate(5 << 30)
    assert listed(client, tmp_path)["a"]["status"] == "damaged"
    assert "larger than" in str(listed(client, tmp_path)["a"]["message"])
    texts = answers(client, tmp_path, "a")
    assert len(texts["run"]) < 1_000_000


def test_very_many_metrics_are_bounded(client: Client, tmp_path: Path) -> None:
    lines = [
        json.dumps({"kind": "train", "step": step, **{f"m{step}_{n}": 1.0 for n in range(1000)}}) for step in range(30)
    ]
    make_run(tmp_path, "a", lines)
    assert len(client(tmp_path).get("/api/curves?run=a").json()["names"]) <= 20_000


@pytest.mark.parametrize(
    "query", ["from=x", "points=-5", "points=1e400", "smooth=nan", "from=inf&to=-inf", "x=what", "series=", "smooth=2"]
)
def test_odd_questions_get_an_answer(client: Client, tmp_path: Path, query: str) -> None:
    make_run(tmp_path, "a", [row(step) for step in range(10)])
    make_run(tmp_path, "b", [row(step) for step in range(10)])
    for page in ("curves", "bands"):
        assert client(tmp_path).get(f"/api/{page}?run=a&run=b&{query}").status_code in (200, 404)
