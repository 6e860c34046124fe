"""`trueloop ready train.py`: one checked run of a script, and every line of its note against what that run left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.readiness.evidence import check_html, check_markdown, check_statements
from trueloop.claims.catalogue import names
from trueloop.cli.ready import EVIDENCE, drop_old_proofs
from trueloop.readiness.record import Record
from trueloop.readiness.script import PROBE, readiness_of_script
from trueloop.readiness.statements import Run
from trueloop.report.json import render
from trueloop.results.check import ExitCode
from trueloop.results.proof import Proof, Proofs
from trueloop.results.readiness import Readiness
from trueloop.usercode.settings import Settings

HEALTHY = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(300, 8)
labels = (inputs[:, 0] > 0).long()
train, valid = TensorDataset(inputs[:200], labels[:200]), TensorDataset(inputs[200:], labels[200:])
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = DataLoader(train, batch_size=20, shuffle=True)
for epoch in range(4):
    model.train()
    for batch, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), targets)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(batch).argmax(1) == targets).sum().item() for batch, targets in DataLoader(valid, batch_size=50))
    print("right", right, *sys.argv[1:])
"""  # noqa: E501
SAVED = """
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "random": torch.get_rng_state()}
torch.save(state, "last.pt")
"""  # noqa: E501


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a healthy script was reviewed."""
    folder = tmp_path_factory.mktemp("healthy")
    reviewed(folder, HEALTHY + SAVED, "--mine", "3")
    return folder


def reviewed(folder: Path, text: str, *words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """`trueloop ready OPTIONS train.py WORDS`."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "trueloop", "ready", *options, "train.py", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    (folder / "stdout").write_text(done.stdout, encoding="utf-8")
    (folder / "stderr").write_text(done.stderr, encoding="utf-8")
    return done


def read(folder: Path, name: str = "train.py", settings: Settings | None = None) -> Readiness:
    """From what the run has left."""
    run = Run(Record(folder / EVIDENCE, f"{EVIDENCE}/"), name, claims=names(), probe=PROBE)
    return readiness_of_script(run, settings or Settings())


def test_every_line_of_a_healthy_script_s_note_is_in_its_evidence(healthy: Path) -> None:
    made = read(healthy, "train.py --mine 3")
    check_statements(made, healthy)
    check_markdown(healthy / "training-readiness.md", made)
    check_html(healthy / "training-readiness.html", made)
    assert made.verdict == "ready with risks"
    texts = {each.text: each for each in made.statements}
    assert texts["Sequential, 178 parameters"].status == "note"
    assert texts["200 training samples"].links[0].startswith("training-readiness/events.jsonl:")
    assert texts["the last saved file holds weights, an optimizer, random states, a counter"].status == "good"
    assert texts["evaluated-in-train-mode: checked, nothing found"].status == "good"


def test_what_a_script_prints_is_not_in_the_note(healthy: Path) -> None:
    said, noted = ((healthy / name).read_text(encoding="utf-8") for name in ("stderr", "stdout"))
    assert "right" in said
    assert "--mine 3" in said
    assert "right" not in noted
    assert noted.splitlines()[-1].startswith("! train.py --mine 3: ready with risks;")


def test_what_a_script_cannot_show_is_missing_with_what_to_type(healthy: Path) -> None:
    missing = {each.text: each.command for each in read(healthy).of("missing")}
    assert any(
        "a script does not say which value is its metric" in text and "as a recipe" in command
        for text, command in missing.items()
    )
    assert [command for text, command in missing.items() if text.startswith("not tested: ")] == [
        PROBE.format(run="train.py", proofs="training-readiness/proofs.json")
    ]


def test_a_switched_off_rule_proves_nothing(healthy: Path) -> None:
    made = read(healthy, settings=Settings(ignore=("evaluated-in-train-mode",)))
    (said,) = (each for each in made.statements if "disabled in the settings" in each.text)
    assert (said.section, said.status) == ("validation", "missing")
    assert not any(each.text.startswith("evaluated-in-train-mode") for each in made.of("good"))


def test_proofs_of_this_script_are_quoted_and_those_of_an_older_one_are_not(
    healthy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(healthy)
    tried = Proofs("train.py", (Proof("overfit-one-batch", "holds", "from 0.7 to 0.001", "it falls"),))
    (EVIDENCE / "proofs.json").write_text(render(tried), encoding="utf-8")
    made = read(healthy)
    check_statements(made, healthy)
    assert any(each.text == "overfit-one-batch holds: from 0.7 to 0.001" for each in made.of("good"))
    drop_old_proofs(Path("train.py"))
    assert (EVIDENCE / "proofs.json").is_file()
    later = time.time() + 60
    os.utime("train.py", (later, later))
    drop_old_proofs(Path("train.py"))
    assert not (EVIDENCE / "proofs.json").exists()
    assert (EVIDENCE / "proofs.json.old").is_file()


@pytest.mark.long
def test_without_a_checkpoint_a_script_that_fails_is_not_ready(tmp_path: Path) -> None:
    assert (
        reviewed(tmp_path, HEALTHY + "raise SystemExit(3)\n", options=("--fail-on", "error")).returncode
        == ExitCode.FINDINGS
    )
    made = read(tmp_path)
    check_statements(made, tmp_path)
    assert made.verdict == "not ready"
    assert {each.text.partition(":")[0] for each in made.reasons() if each.essential} == {
        "a checkpoint",
        "the script ended with exit code 3",
    }


@pytest.mark.long
def test_a_bug_is_bad_and_a_run_that_was_cut_is_a_risk(tmp_path: Path) -> None:
    text = HEALTHY.replace("    model.eval()\n", "").replace("nn.ReLU()", "nn.Dropout(0.5)") + SAVED
    assert reviewed(tmp_path, text, options=("--steps", "35")).returncode == ExitCode.CLEAN
    made = read(tmp_path)
    check_statements(made, tmp_path)
    assert made.verdict == "not ready"
    assert any(each.text.startswith("evaluated-in-train-mode: reported") for each in made.of("bad"))
    assert any("evaluated-in-train-mode" in each.text and each.section == "findings" for each in made.of("bad"))
    assert any(each.text.endswith("exit code 0: cut") for each in made.of("risk"))
