"""A stamp says that this user made something; nobody else can write one."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.export.made import RECIPE
from trueloop.cli.main import main
from trueloop.trust.made_here import is_made_here, stamp

FACTS = {"kind": "run", "recipe": "/home/me/own.py"}


@pytest.fixture(autouse=True)
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRUELOOP_KEY", str(tmp_path / "home" / "key"))
    return tmp_path / "home" / "key"


def test_what_is_stamped_here_was_made_here(key: Path) -> None:
    kept = stamp(FACTS)
    assert is_made_here(FACTS, kept)
    assert not is_made_here({**FACTS, "recipe": "/tmp/evil.py"}, kept)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


@pytest.mark.parametrize("kept", [None, "", 3, "00" * 32, "ü" * 64, ["x"]])
def test_other_stamps_are_not_ours(kept: object) -> None:
    stamp(FACTS)
    assert not is_made_here(FACTS, kept)


def test_without_a_key_nothing_was_made_here(key: Path) -> None:
    kept = stamp(FACTS)
    key.unlink()
    assert not is_made_here(FACTS, kept)
    key.write_bytes(b"short")
    assert not is_made_here(FACTS, kept)


def test_a_home_that_cannot_be_written_gives_no_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("TRUELOOP_KEY", str(tmp_path / "file" / "key"))
    assert stamp(FACTS) == ""


def test_processes_that_make_the_key_at_once_use_one_key() -> None:
    code = "from trueloop.trust.made_here import stamp; print(stamp({'a': 1}))"
    children = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(4)]
    assert len({child.communicate()[0] for child in children}) == 1


# -- runs --


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "stamped_shades.py").write_text(RECIPE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["train", "stamped_shades.py"]) == 0
    sys.modules.pop("stamped_shades", None)
    yield tmp_path / "runs" / "shades"
    sys.modules.pop("stamped_shades", None)


def strangers(run: Path) -> Path:
    """The canary: a recipe that leaves a trace."""
    evil = run.parent.parent / "evil_recipe.py"
    evil.write_text(f"import os\nos.mkdir({str(run.parent / 'it-ran')!r})\n{RECIPE}", encoding="utf-8")
    about = json.loads((run / "run.json").read_text(encoding="utf-8"))
    about["origin"]["recipe"] = str(evil)
    (run / "run.json").write_text(json.dumps(about), encoding="utf-8")
    return run.parent / "it-ran"


VERBS = [
    ["resume", "{run}", "--set", "epochs=2"],
    ["export", "{run}", "--to", "torchscript"],
    ["bench", "{run}"],
    ["probe", "{run}", "resume-is-exact"],
    ["inspect", "model", "{run}"],
    ["evaluate", "{run}"],
    ["predict", "{run}", "--input", "x.csv"],
    ["profile", "{run}"],
    ["tune", "{run}"],
    ["quantize", "{run}", "--scheme", "int8-dynamic"],
]


def test_the_recipe_of_a_run_that_was_not_trained_here_is_not_executed(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = strangers(run)
    for words in VERBS:
        assert main([word.format(run=run) for word in words]) == 4, words
        assert "This command would execute it. Nothing was run: if you trust the file, add --trust" in (
            capsys.readouterr().err
        )
        assert not ran.exists()


def test_a_recipe_inside_the_folder_needs_trust_even_with_a_stamp(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = json.loads((run / "run.json").read_text(encoding="utf-8"))
    about["origin"]["recipe"] = str(run / "inside_recipe.py")
    about["made_here"] = stamp({"kind": "run", "recipe": str(run / "inside_recipe.py")})
    (run / "run.json").write_text(json.dumps(about), encoding="utf-8")
    (run / "inside_recipe.py").write_text("raise SystemExit(1)", encoding="utf-8")
    assert main(["inspect", "model", str(run)]) == 4
    assert "lies in that folder" in capsys.readouterr().err


def test_trust_is_for_one_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = strangers(run)
    assert main(["inspect", "model", str(run), "--trust"]) == 0
    assert ran.exists()
    assert os.environ.get("TRUELOOP_TRUST") is None
    assert main(["inspect", "model", str(run)]) == 4


def test_a_recipe_that_the_user_names_needs_no_trust(run: Path) -> None:
    strangers(run)
    assert main(["resume", str(run), "--recipe", "stamped_shades.py", "--set", "epochs=2"]) == 0
