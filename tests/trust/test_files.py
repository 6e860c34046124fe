"""Run folders of strangers: pipes, depth and control characters."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from trueloop.cli.main import main
from trueloop.trust.files import parse_json, printable, read_regular


def test_what_steers_a_terminal_is_written_out() -> None:
    assert printable({"\x1b[2J": ["a\x07", "line\nnext\t"], "n": 1}) == {"\\x1b[2J": ["a\\x07", "line\nnext\t"], "n": 1}
    assert printable("\u202eabc") == "\\u202eabc"
    assert printable("日本 ü") == "日本 ü"


def test_depth_is_an_error_of_the_file() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 200_000)


def test_pipes_and_folders_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "pipe")
    with pytest.raises(OSError, match="Is a directory"):
        read_regular(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    before = Path.cwd()
    os.chdir(folder)
    try:
        for name in ("a", "b"):
            assert main(["train", "digits", "--set", "epochs=1", "--name", name, "--quiet"]) == 0
    finally:
        os.chdir(before)
    return folder


def test_hostile_siblings_do_not_stop_other_runs(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    for name in ("pipe", "deep", "rows", "evil"):
        shutil.copytree("runs/b", f"runs/{name}")
    os.unlink("runs/pipe/run.json")
    os.mkfifo("runs/pipe/run.json")
    Path("runs/deep/run.json").write_text("[" * 200_000, encoding="utf-8")
    os.unlink("runs/rows/metrics.jsonl")
    os.mkfifo("runs/rows/metrics.jsonl")
    about = json.loads(Path("runs/evil/run.json").read_text(encoding="utf-8"))
    about["recipe"]["name"] = about["recipe"]["optimizer"] = "\x1b[2J\x1b]0;evil\x07"
    Path("runs/evil/run.json").write_text(json.dumps(about), encoding="utf-8")

    assert main(["runs"]) == 0
    assert main(["compare", "a", "evil"]) == 0
    assert main(["ready", "a"]) in (0, 1)
    said = capsys.readouterr()
    assert "\x1b" not in said.out.replace("\x1b[0m", "")
    assert "\\x1b[2J" in said.out
