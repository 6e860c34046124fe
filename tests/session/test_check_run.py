"""The run folder of a checked script: its rows, its report, its program, and that it never harms the script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.session.checked_runs import HEAD, checked_run, file_of, rows_of
from tests.waiting import until
from trueloop.errors import Misuse
from trueloop.session.check_run import CheckRun, name_of_script
from trueloop.session.runs import read_runs, summary_of

PLAIN = """
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
train_loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
val_loader = torch.utils.data.DataLoader(data, batch_size=16)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
for epoch in range(2):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    schedule.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in val_loader:
            out = model(x)
            functional.cross_entropy(out, y)
            right += (out.argmax(1) == y).sum().item()
    print(f"epoch {epoch} loss {loss.item():.4f} val_acc {right / 64:.4f}")
print(repr(sum(p.double().sum().item() for p in model.parameters())))
"""


def test_a_row_for_each_step_and_each_evaluation(tmp_path: Path) -> None:
    printed = checked_run(tmp_path, PLAIN, "--lr", "0.1")
    rows = rows_of(tmp_path)
    assert [row.step for row in rows] == list(range(1, 17))
    assert [row.epoch for row in rows] == [step / 8 for step in range(1, 17)]
    assert [row.values["lr"] for row in rows] == [0.1] * 8 + [0.05] * 8
    assert all(row.values["loss"] > 0 for row in rows)
    assert "gradient_norm" in rows[0].values, "the observers measure the first steps"
    valid = rows_of(tmp_path, "valid")
    assert [(row.step, row.epoch) for row in valid] == [(8, 1.0), (16, 2.0)]
    assert [f"val_acc {row.values['acc']:.4f}" in printed for row in valid] == [True, True]
    assert all(0 < row.values["loss"] < 2 for row in valid)
    assert valid[0].best
    about = file_of(tmp_path, "run.json")
    assert (about["kind"], about["format"], about["name"], about["status"]) == ("check", 1, "train", "finished")
    assert (about["script"], about["arguments"], about["step"]) == ("train.py", ["--lr", "0.1"], 16)
    assert about["machine"]["torch"]
    assert about["exit_code"] == 0
    summary = summary_of(tmp_path / "runs" / "train")
    assert (summary.kind, summary.status, summary.metric, summary.step) == ("check", "finished", "acc", 16)
    assert summary.settings == {"--lr": "0.1"}
    assert summary.best == max(row.values["acc"] for row in valid)


def test_the_script_computes_the_same_bits_as_without_a_run(tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    with_run = checked_run(tmp_path / "with", PLAIN).splitlines()[-2]
    assert with_run == checked_run(tmp_path / "without", PLAIN, keep_run=False).splitlines()[-1]


def test_the_report_and_the_program(tmp_path: Path) -> None:
    text = PLAIN.replace("optimizer.zero_grad()", "pass")
    checked_run(tmp_path, text)
    report = file_of(tmp_path, "report.json")
    found = {finding["name"]: finding for finding in report["findings"]}
    assert "gradients-never-cleared" in found
    assert found["gradients-never-cleared"]["first_step"] >= 0
    assert file_of(tmp_path, "run.json")["findings"]["error"] >= 1
    program = file_of(tmp_path, "step_program.json")
    assert program["models"] == [{"model": 0, "name": "Linear", "parameters": 10}]
    assert program["optimizers"][0]["name"] == "SGD"
    assert program["files"] == [str(tmp_path / "train.py")]
    training = next(each for each in program["programs"] if each["phase"] == "training")
    names = [operation[0] for operation in training["operations"]]
    assert {"linear", "cross_entropy"} <= set(names)
    weight = next(value for value in training["values"] if value[3] == "weight")
    assert weight == [[2, 4], "float32", "parameter", "weight", "optimizer"]
    loss = training["values"][training["losses"][0]]
    assert loss[0] == []
    line = (HEAD + text).splitlines().index("        loss = functional.cross_entropy(model(x), y)") + 1
    assert training["operations"][names.index("cross_entropy")][3] == [0, line]


def test_losses_and_rates_of_several_optimizers_are_named(tmp_path: Path) -> None:
    checked_run(
        tmp_path,
        """
one, two = nn.Linear(4, 4), nn.Linear(4, 1)
opt_g = torch.optim.SGD([{"params": [one.weight]}, {"params": [one.bias], "lr": 0.5, "name": "bias"}], lr=0.1)
opt_d = torch.optim.SGD(two.parameters(), lr=0.2)
for _ in range(3):
    d_loss = two(one(torch.randn(8, 4)).detach()).square().mean()
    opt_d.zero_grad(); d_loss.backward(); opt_d.step()
    g_loss = two(one(torch.randn(8, 4))).square().mean()
    opt_g.zero_grad(); g_loss.backward(); opt_g.step()
""",
    )
    rows = rows_of(tmp_path)
    assert [row.step for row in rows] == [1, 2, 3, 4, 5, 6]
    assert {"d_loss", "lr/opt_d"} <= set(rows[0].values)
    assert {"g_loss", "lr/opt_g", "lr/opt_g/bias"} <= set(rows[1].values)
    assert rows[1].values["lr/opt_g/bias"] == 0.5
    assert "loss" not in rows[0].values


def test_optimizers_that_share_a_loss_make_one_row(tmp_path: Path) -> None:
    checked_run(
        tmp_path,
        """
model = nn.Linear(4, 1)
first, second = torch.optim.SGD([model.weight], lr=0.1), torch.optim.SGD([model.bias], lr=0.2)
for _ in range(3):
    first.zero_grad(); second.zero_grad()
    total = model(torch.randn(8, 4)).square().mean()
    total.backward(); first.step(); second.step()
""",
    )
    rows = rows_of(tmp_path)
    assert [row.step for row in rows] == [2, 4, 6]
    assert set(rows[-1].values) >= {"loss", "lr/first", "lr/second"}


@pytest.mark.parametrize(("divided", "factor"), [(" / 4", 1.0), ("", 1.0)])
def test_the_loss_of_an_accumulated_step_is_that_of_a_micro_batch(divided: str, factor: float, tmp_path: Path) -> None:
    checked_run(
        tmp_path,
        f"""
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
inputs = torch.randn(8, 4)
for _ in range(3):
    optimizer.zero_grad()
    for _ in range(4):
        loss = model(inputs).square().mean(){divided}
        loss.backward()
    optimizer.step()
print(model(inputs).square().mean().item())
""",
    )
    expected = float((tmp_path / "printed.txt").read_text().splitlines()[0])
    assert [row.values["loss"] for row in rows_of(tmp_path)] == pytest.approx([factor * expected] * 3)


def test_the_norm_of_clipping_and_values_of_the_users_own(tmp_path: Path) -> None:
    printed = checked_run(
        tmp_path,
        """
import trueloop
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    trueloop.log(entropy=torch.tensor(step / 2), val_score=step, words=["no", "number"])
""",
    )
    rows = rows_of(tmp_path)
    assert all("gradient_norm" in row.values for row in rows)
    assert [row.values["entropy"] for row in rows] == [step / 2 for step in range(30)]
    assert [row.values["score"] for row in rows_of(tmp_path, "valid")] == list(range(30))
    assert "words" not in rows[0].values
    assert printed


@pytest.mark.long
def test_a_long_run_takes_less_than_100_bytes_per_step(tmp_path: Path) -> None:
    text = PLAIN.replace("range(2)", "range(250)").replace("schedule.step()", "pass")
    text = text.replace("        optimizer.step()", "        optimizer.step(); schedule.step()").replace(
        "0.5)", "0.999)"
    )
    checked_run(tmp_path, text)
    size = sum(file.stat().st_size for file in (tmp_path / "runs" / "train").iterdir())
    assert size / 2000 < 100
    rows = rows_of(tmp_path)
    assert rows[-1].step == 2000
    assert len(rows) > 1500, "an evaluation every eight steps takes the place of some"


# -- what goes wrong --


def test_a_full_disk_ends_the_folder_and_not_the_script(tmp_path: Path) -> None:
    printed = checked_run(tmp_path, PLAIN, file_limit=1200)
    assert "epoch 1 loss" in printed
    assert "incomplete (File too large)" in printed
    assert summary_of(tmp_path / "runs" / "train").step == 16


def test_a_console_that_cannot_be_written_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, _ = CheckRun.create(tmp_path, "train", "train.py", (), named=False)
    assert run is not None
    (run.folder / "console.log").mkdir()
    with run.console():
        print("printed")
    assert capsys.readouterr().out == "printed\n"
    assert run.failure().startswith(f"the run folder {tmp_path / 'train'} is incomplete (console.log: ")


def test_where_nothing_can_be_written_the_script_is_checked_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    run, why = CheckRun.create(tmp_path / "runs", "train", "train.py", (), named=False)
    assert run is None
    assert "cannot be made (Not a directory). The script is checked all the same, without a run folder." in why


def test_a_name_is_used_once_and_numbered_if_nobody_chose_it(tmp_path: Path) -> None:
    for name in ("train", "train-2", "train-3"):
        run, _ = CheckRun.create(tmp_path, "train", "train.py", (), named=False)
        assert run is not None
        assert run.folder.name == name
    with pytest.raises(Misuse, match=r"already holds a run\. Nothing was run: choose another --name\."):
        CheckRun.create(tmp_path, "train", "train.py", (), named=True)


@pytest.mark.parametrize(
    ("script", "name"),
    [("train.py", "train"), ("a/b c.py", "b-c"), ("package/__main__.py", "package"), ("book.ipynb", "book")],
)
def test_a_run_is_called_after_its_script(script: str, name: str) -> None:
    assert name_of_script(script) == name


SLOW = """
import time
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10**6):
    functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    optimizer.step()
"""


@pytest.mark.long
def test_a_killed_script_leaves_a_run_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(HEAD + SLOW, encoding="utf-8")
    command = [sys.executable, "-m", "trueloop", "check", "slow.py"]
    killed = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = tmp_path / "runs" / "slow"
    try:
        until(lambda: (folder / "metrics.jsonl").is_file() and (folder / "report.json").is_file(), "a row and a report")
        assert summary_of(folder).status == "running"
    finally:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train","st')
    (summary,) = read_runs(tmp_path / "runs")
    assert summary.status == "killed"
    assert summary.step > 0
    assert "gradients-never-cleared" in (folder / "report.json").read_text()


@pytest.mark.long
def test_the_command_keeps_a_run_unless_it_is_told_not_to(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEAD + PLAIN, encoding="utf-8")

    def check(*words: str) -> str:
        command = [sys.executable, "-m", "trueloop", "check", *words, "train.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        return done.stderr

    assert "run folder" not in check("--no-run")
    assert not (tmp_path / "runs").exists()
    assert check().endswith("; run folder runs/train\n")
    console = (tmp_path / "runs" / "train" / "console.log").read_text(encoding="utf-8").splitlines()
    assert [line.split(" loss")[0] for line in console[:2]] == ["epoch 0", "epoch 1"]
    assert len(console) == 3  # what the script printed, not the report
    check("--runs", "elsewhere", "--name", "mine")
    assert (tmp_path / "elsewhere" / "mine" / "metrics.jsonl").is_file()
    (tmp_path / "pyproject.toml").write_text("[tool.trueloop]\nruns = false\n")
    assert "run folder" not in check()
    assert [each.name for each in (tmp_path / "runs").iterdir()] == ["train"]
