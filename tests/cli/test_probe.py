"""`trueloop probe` as it is typed: recipes, runs and scripts, wrong words, formats and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trueloop.claims.catalogue import ORDER, claims_named, names, sentences
from trueloop.cli.main import main
from trueloop.op_claims.catalogue import OP_CLAIMS
from trueloop.optimizer_claims.catalogue import OPTIMIZER_CLAIMS
from trueloop.results.proof import read_proofs

CLAIM = "optimizer-holds-every-parameter"
RECIPE = """\
import torch
from torch import nn
from trueloop import Recipe, Splits, Tensors

def read(request):
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    y = (x.sum(1) > 0).long()
    return Splits(Tensors(x[:48], y[:48]), Tensors(x[48:], y[48:]))

recipe = Recipe(name="mine", model=lambda: nn.Linear(4, 2), data=read, epochs=1, batch=16, device="cpu", trackers=())
"""
SCRIPT = """\
import sys
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model{part}.parameters(), lr=0.01)
x = torch.randn(16, 4)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(RECIPE, encoding="utf-8")
    (tmp_path / "train.py").write_text(SCRIPT.format(part=""), encoding="utf-8")
    (tmp_path / "broken.py").write_text(SCRIPT.format(part="[0]"), encoding="utf-8")
    (tmp_path / "crash.py").write_text("raise SystemExit(7)\n", encoding="utf-8")
    return tmp_path


def probe(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trueloop", "probe", *words], capture_output=True, text=True, timeout=300
    )


def test_a_recipe_of_the_users(here: Path) -> None:
    done = probe("mine.py", CLAIM)
    assert done.returncode == 0, done.stderr
    assert f"✓ {CLAIM}" in done.stdout
    assert "1 of 1 claim holds" in done.stdout


@pytest.mark.long
def test_proofs_of_a_run_are_kept_in_its_folder(here: Path) -> None:
    assert (
        subprocess.run(
            [sys.executable, "-m", "trueloop", "train", "mine.py"], capture_output=True, timeout=300
        ).returncode
        == 0
    )
    done = probe("--format", "json", "runs/mine", CLAIM)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["holds"] == 1
    assert [proof.claim for proof in read_proofs(here / "runs" / "mine").proofs] == [CLAIM]


@pytest.mark.long
def test_a_script_is_given_its_own_words_and_keeps_its_place(here: Path) -> None:
    assert probe("train.py", CLAIM, "--", "20").returncode == 0
    done = probe("broken.py", CLAIM, "--", "20")
    assert done.returncode == 1
    assert "broken.py:6" in done.stdout
    assert "healthy" in done.stdout


@pytest.mark.long
def test_what_no_script_can_show_is_left_out_in_one_word(here: Path) -> None:
    done = probe("--format", "json", "--steps", "12", "train.py", "--", "15")
    said = json.loads(done.stdout)
    assert "learning-rate-range" in said["left_out"]
    assert not {proof["claim"] for proof in said["proofs"]} & set(said["left_out"])
    assert {proof["claim"] for proof in said["proofs"]} | set(said["left_out"]) == set(names())
    assert not [proof for proof in said["proofs"] if "needs a recipe" in proof["measured"]]
    assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_a_script_that_fails_keeps_its_code_and_nothing_is_claimed(here: Path) -> None:
    done = probe("crash.py", CLAIM)
    assert done.returncode == 7
    assert "the script itself failed with exit code 7" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Probe what?"),
        (("nowhere",), "is not a recipe, a run or a script"),
        (("digts",), "Did you mean digits"),
        (("gone.py",), "There is no file gone.py"),
        (("digits", "overfit-one-bach"), "Did you mean overfit-one-batch"),
        (
            ("digits", "--epochs"),
            "There is no option --epochs. Did you mean --steps? Arguments of a script stand after `--`.",
        ),
        (("--format", "yaml", "digits"), "--format cannot be 'yaml'"),
        (("--steps", "0", "train.py"), "--steps cannot be"),
        (("--set", "lr=1", "train.py"), "is a script"),
        (("--sett", "lr=1", "digits"), "Did you mean --set"),
        (("--set", "lrr=1", "digits"), "lr"),
        (("tests-of-nothing/",), "is not a recipe"),
        (("emptyfolder",), "holds no run"),
        (("damaged",), "proofs.json is damaged"),
        (("--output", "nowhere/x.json", "--format", "json", "digits"), "cannot be written"),
        (("--output", "train.py", "digits"), "would overwrite a Python file"),
    ],
)
def test_wrong_words_are_refused_with_a_sentence(
    here: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "emptyfolder").mkdir()
    (here / "damaged").mkdir()
    (here / "damaged" / "proofs.json").write_text('{"format": 1, "subject": "x", "proofs": "no"}', encoding="utf-8")
    assert main(["probe", *words]) == 4
    assert said in capsys.readouterr().err


def test_the_list_says_what_each_claims(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == [
        *names(),
        *OP_CLAIMS.names(),
        *OPTIMIZER_CLAIMS.names(),
    ]
    for listed in (sentences(), OP_CLAIMS.sentences()):
        assert all(sentence and sentence != name for name, sentence in listed.items())


def test_every_claim_has_a_place_in_the_order_and_its_class_has_its_name() -> None:
    assert set(names()) == set(ORDER)
    assert [claim.name for claim in claims_named(())] == list(ORDER)


def test_the_list_is_quick() -> None:
    code = (
        "import sys; from trueloop.cli.main import main; main(['probe', '--list']); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


OWN_SGD = """
import torch

class Own(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))
        self.taken = {}

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    kept = self.taken.setdefault(p, torch.zeros_like(p)).mul_(0.9).add_(p.grad)
                    p.add_(kept, alpha=-group["lr"])
        return loss
"""


def test_an_optimizer_is_probed_beside_its_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"own_{tmp_path.name}.py"
    file.write_text(OWN_SGD, encoding="utf-8")
    claims = ["state-survives-checkpoint", "closure-is-used", "learning-rate-is-read-each-step"]
    against = ["--against", "torch.optim.SGD(momentum=0.9)", "--set", "lr=0.05"]
    assert main(["probe", f"{file}:Own", *claims, *against]) == 1
    said = capsys.readouterr().out
    assert "Own(lr=0.05)" in said
    assert "these attributes are not in state_dict(): taken" in said
    assert "2 of 3 claims hold, 1 fails" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--inputs", "f32[4]"], "Own is an optimizer: --inputs, --gradient-of and --device are for operations"),
        (["--against", "torch.relu"], "torch.relu is not an optimizer"),
        (["--against", "torch.optim.SGD(0.1)"], "is not understood"),
        (["--against", "torch.optim.SGD(depth=3)"], "--against torch.optim.SGD(depth=3) raises"),
        (["--set", "depth=3"], "raises in its first step"),
    ],
)
def test_what_does_not_fit_an_optimizer_is_one_sentence(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"own_{tmp_path.name}.py"
    file.write_text(OWN_SGD, encoding="utf-8")
    assert main(["probe", f"{file}:Own", *words]) == 4
    assert said in capsys.readouterr().err


def test_an_optimizer_that_quits_does_not_end_the_probe_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "quits_in_step.py"
    lines = (
        "import torch\nclass Quits(torch.optim.SGD):\n    def step(self, closure=None):\n        raise SystemExit(3)\n"
    )
    file.write_text(lines, encoding="utf-8")
    assert main(["probe", f"{file}:Quits"]) == 4
    assert "Quits raises in its first step: SystemExit: 3. Nothing was tested" in capsys.readouterr().err
