"""Scripts are probed in copies of their folder: nothing is written into the user's, and no run sees another's files."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pytest

from tests.claims.subjects import try_script
from trueloop.claims.subject import ScriptSubject
from trueloop.cli.main import main
from trueloop.experiment.folder_copy import snapshot

WRITES = """\
import os
from pathlib import Path
import torch
from torch import nn

torch.manual_seed(0)
os.makedirs("ckpt")  # fails where an earlier run has left it
here = Path(__file__).resolve().parent
x = torch.load("data/x.pt")
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(12):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()
    torch.save(model.state_dict(), "ckpt/last.pt")
    (here / "log.txt").open("a").write("a line\\n")
"""


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch = pytest.importorskip("torch")
    (tmp_path / "data").mkdir()
    torch.save(torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), tmp_path / "data" / "x.pt")
    return tmp_path


def test_runs_write_into_copies_of_their_own(folder: Path) -> None:
    before = files(folder) | {"train.py"}
    proof = try_script("runs-are-deterministic", folder, WRITES)
    assert proof.result == "holds", proof
    assert files(folder) == before


def test_a_failed_claim_names_the_users_own_line(folder: Path) -> None:
    text = WRITES.replace("torch.manual_seed(0)", "")
    proof = try_script("runs-are-deterministic", folder, text)
    assert proof.result == "fails"
    assert proof.place is not None
    assert proof.place.path == str(folder / "train.py")
    assert "trueloop-try" not in repr(proof)


def test_errors_of_a_run_show_the_users_own_paths(folder: Path) -> None:
    (folder / "train.py").write_text("open(__file__ + '.gone')\n", encoding="utf-8")
    with chdir(folder), snapshot(folder / "train.py") as taken:
        checked = ScriptSubject(("train.py",), 5, folder.parent / f"{folder.name}-results", taken).checked
    assert checked.exit_code == 1
    assert str(folder / "train.py.gone") in checked.report["script"]["exception"]
    assert "trueloop-try" not in checked.stderr + repr(checked.report)


def test_linked_folders_are_not_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    text = f"import os, torch\nassert os.path.realpath('data') == {str(folder / 'data')!r}\n{WRITES}"
    (folder / "linked.py").write_text(text, encoding="utf-8")
    words = ["probe", "--link", "data", "--quiet", "linked.py", "optimizer-holds-every-parameter"]
    assert main(words) == 0


def test_folders_that_are_too_large_are_refused_like_by_try(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("trueloop.experiment.folder_copy.MOST_FILES", 1)
    (folder / "train.py").write_text(WRITES, encoding="utf-8")
    assert main(["probe", "train.py"]) == 4
    said = capsys.readouterr().err
    assert "each run gets a copy. Nothing was run" in said
    assert "--link DIR" in said
    assert main(["probe", "--link", "data", "digits"]) == 4
    assert "--link is for the folder of a script" in capsys.readouterr().err
