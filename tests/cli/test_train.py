"""`trueloop train` and `trueloop resume`, from the command to the exit code, on recipes that really train."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import in_child
from trueloop.cli.failure import is_user_error, report_user_errors
from trueloop.cli.main import main
from trueloop.cli.recipe_options import as_set
from trueloop.cli.train import exit_code
from trueloop.hook import Ending
from trueloop.recipe.recipe import field_docs, field_types

RECIPE = """\
import torch
from torch import nn

from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import Recipe


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)


def read(request):
    draws = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 4, generator=draws), torch.randint(0, 3, (40,), generator=draws)
    return Splits(Tensors(x[:32], y[:32]), Tensors(x[32:], y[32:]))


recipe = Recipe(name="mine", model=Net, data=read, epochs=3, batch=8, device="cpu", trackers=(), statistics_every=0)
"""


FAILS = ("return self.layer(x)", "assert not self.training, 'in training'\n        return self.layer(x)")
"""What to change so that the model raises in its first step, and not in the rehearsal."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def trueloop(folder: Path, *words: str) -> Ended:
    """The command in a forked child, with its own stdout and stderr."""
    out, err = folder / "stdout.txt", folder / "stderr.txt"

    def work() -> int:
        os.chdir(folder)
        for number, file in ((1, out), (2, err)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", 1, closefd=False)
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        return code

    return Ended(in_child(work), out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def written(folder: Path, *changes: tuple[str, str]) -> Path:
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "mine.py").write_text(text, encoding="utf-8")
    return folder


def about(folder: Path, name: str = "mine") -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "runs" / name / "run.json").read_text(encoding="utf-8"))
    return read


def refused(folder: Path, *words: str) -> str:
    """What is said of a command that is wrong: no traceback, nothing run."""
    ended = trueloop(folder, "train", *words)
    assert ended.code == 4, ended.err
    assert "Traceback" not in ended.err
    assert not (folder / "runs").exists()
    return ended.err


# -- a run --


def test_a_file_of_the_users_is_trained_and_named(tmp_path: Path) -> None:
    ended = trueloop(
        written(tmp_path), "train", "mine.py", "--name", "trial", "--set", "lr=0.1", "--set", "weight-decay=0.5"
    )
    assert (ended.code, ended.err) == (0, "")
    run = about(tmp_path, "trial")
    assert (run["status"], run["step"]) == ("finished", 12)
    assert (run["recipe"]["lr"], run["recipe"]["weight_decay"]) == (0.1, 0.5)
    assert run["origin"]["recipe"] == str(tmp_path / "mine.py")


def test_steps_take_the_place_of_epochs_and_idle_values_are_said(tmp_path: Path) -> None:
    ended = trueloop(written(tmp_path), "train", "mine.py", "--set", "steps=2", "--set", "momentum=0.5")
    assert ended.code == 0
    assert "note: steps=2 replaces the recipe's epochs=3." in ended.err
    assert "note: momentum=0.5 does nothing with optimizer=adamw" in ended.err
    assert about(tmp_path)["step"] == 2


# -- --show and --help --


def test_show_prints_every_field_with_value_mark_and_meaning_and_trains_nothing(tmp_path: Path) -> None:
    ended = trueloop(
        written(tmp_path), "train", "mine.py", "--show", "--set", "lr=0.5", "--set", "optimizer_options.eps=1e-6"
    )
    assert (ended.code, ended.err) == (0, "")
    assert not (tmp_path / "runs").exists()
    rows = {found[2]: found for found in re.finditer(r"^([ *>]) (\w+) +(\S+)", ended.out, re.MULTILINE)}
    assert set(field_types()) <= set(rows)
    assert (rows["lr"][1], rows["lr"][3]) == (">", "0.5")
    assert (rows["optimizer_options"][1], rows["optimizer_options"][3]) == (">", "eps=1e-06")
    assert (rows["epochs"][1], rows["epochs"][3]) == ("*", "3")
    assert (rows["clip"][1], rows["clip"][3]) == (" ", "none")
    plain = " ".join(ended.out.split())
    assert all(meaning in plain for meaning in field_docs().values())
    assert all(
        f"\n{heading}\n" in ended.out for heading in ("what", "how it learns", "data", "on what", "when", "besides")
    )
    assert ended.out.endswith("set: lr=0.5, optimizer_options.eps=1e-6\n")


def test_show_as_json_can_be_read(tmp_path: Path) -> None:
    ended = trueloop(written(tmp_path), "train", "mine.py", "--show", "--format", "json", "--set", "schedule=cosine")
    assert ended.code == 0
    page = json.loads(ended.out)
    fields = {field["name"]: field for field in page["fields"]}
    assert list(fields) == list(field_types())
    assert fields["schedule"]["value"] == "cosine"
    assert fields["schedule"]["default"] == "constant"
    assert fields["schedule"]["set"]
    assert fields["schedule"]["differs"]
    assert fields["schedule"]["group"] == "how it learns"
    assert not fields["lr"]["differs"]
    assert page["mistakes"] == []


def test_show_of_a_wrong_recipe_shows_it_and_says_what_is_wrong(tmp_path: Path) -> None:
    words = ("train", "mine.py", "--show", "--set", "optimizer=adamm", "--set", "keep=0")
    ended = trueloop(written(tmp_path), *words)
    assert ended.code == 4
    assert "optimizer" in ended.out
    assert "Did you mean adam?" in ended.err
    assert "keep is 0" in ended.err
    assert len(json.loads(trueloop(tmp_path, *words, "--format", "json").out)["mistakes"]) == 2


def test_a_shown_value_is_what_set_takes() -> None:
    assert [as_set(value) for value in (None, True, 0.5, [], ["a", "b"], {}, {"a": False}, "x")] == [
        "none", "true", "0.5", "none", "a,b", "none", "a=false", "x",
    ]  # fmt: skip


def test_help_lists_the_recipes_and_the_fields_that_people_set(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    printed = capsys.readouterr().out
    assert re.search(r"^  digits +1,797 digits", printed, re.MULTILINE)
    assert re.search(r"^  my_recipe.py +your own file", printed, re.MULTILINE)
    assert re.search(r"^  lr +The highest learning rate", printed, re.MULTILINE)


# -- misuse --


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Which recipe?"),
        (["digit"], "Did you mean digits?"),
        (["min.py"], "Did you mean mine.py?"),
        (["mine.py", "--set", "lr"], "--set cannot be 'lr': expected NAME=VALUE"),
        (["mine.py", "--set", "=3"], "--set cannot be '=3': expected NAME=VALUE"),
        (["mine.py", "--set", "lr=1", "--set", "lr=2"], "--set sets lr twice: 1 and 2"),
        (["mine.py", "--set", "learning_rate=1"], "Did you mean lr?"),
        (["mine.py", "lr=1"], "type --set lr=1"),
        (["mine.py", "--target", "y"], "takes no --target (y)"),
        (["mine.py", "table.csv"], "takes no TABLE"),
        (["mine.py", "a", "b"], "Unexpected argument 'b'"),
        (["mine.py", "--data", "nowhere"], "--data cannot be 'nowhere': there is no such folder"),
        (["mine.py", "--name", "a/b"], "--name cannot be 'a/b': it names one folder"),
        (["mine.py", "--name", "..", "--runs", "."], "--name cannot be '..': it names one folder"),
        (["mine.py", "--format", "json"], "--format belongs to --show"),
        (["mine.py", "--show", "--format", "jsn"], "Did you mean json?"),
        (["mine.py", "--shw"], "There is no option --shw. Did you mean --show?"),
        (["tabular"], "needs TABLE and --target"),
    ],
)
def test_misuse_is_one_sentence_that_says_what_to_type(words: list[str], said: str, tmp_path: Path) -> None:
    assert said in refused(written(tmp_path), *words)


def test_all_mistakes_are_told_at_once_those_of_the_machine_too(tmp_path: Path) -> None:
    said = refused(written(tmp_path), "mine.py", "--set", "keep=0", "--set", "optimizer=adamm", "--set", "device=gpu")
    assert said.count("\n  - ") == 3


def test_a_name_that_is_taken_is_refused_with_both_ways_on(tmp_path: Path) -> None:
    assert trueloop(written(tmp_path), "train", "mine.py", "--name", "trial").code == 0
    ended = trueloop(tmp_path, "train", "mine.py", "--name", "trial")
    assert ended.code == 4
    assert "choose another --name, or `trueloop resume runs/trial`" in ended.err


def test_a_folder_that_cannot_be_written_is_no_failure_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = trueloop(written(tmp_path), "train", "mine.py", "--runs", "file")
    assert ended.code == 5
    assert "choose another --runs folder" in ended.err
    assert "Traceback" not in ended.err


# -- whose failure --


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("import torch\n", "def f(:\n")], "SyntaxError: invalid syntax"),
        ([("import torch\n", "import no_such_package\n")], "ModuleNotFoundError: No module named 'no_such_package'"),
        ([("super().__init__()", "super().__init__(); raise ValueError('in init')")], "ValueError: in init"),
        ([("draws = torch.Gen", "raise ValueError('in data')\n    draws = torch.Gen")], "ValueError: in data"),
        (
            [FAILS],
            "in training",
        ),
        ([("nn.Linear(4, 3)", "nn.Linear(5, 3)")], "mat1 and mat2 shapes cannot be multiplied"),
    ],
)
def test_what_the_users_code_raises_is_shown_as_theirs(
    changes: list[tuple[str, str]], said: str, tmp_path: Path
) -> None:
    ended = trueloop(written(tmp_path, *changes), "train", "mine.py")
    assert ended.code == 1
    assert said in ended.err
    assert 'mine.py", line' in ended.err
    assert "trueloop itself failed" not in ended.err
    assert "src/trueloop/engine" not in ended.err
    assert "module.py" not in ended.err


def test_a_run_that_the_users_model_ended_says_failed(tmp_path: Path) -> None:
    ended = trueloop(written(tmp_path, FAILS), "train", "mine.py")
    assert "the error above comes from your own code" in ended.err
    run = about(tmp_path)
    assert run["status"] == "failed"
    assert "in training" in run["message"]


def test_a_model_that_does_not_fit_its_data_is_explained_after_its_traceback(tmp_path: Path) -> None:
    ended = trueloop(written(tmp_path, ("nn.Linear(4, 3)", "nn.Linear(5, 3)")), "train", "mine.py")
    last = ended.err.splitlines()[-1]
    assert (
        "in its layer layer (Linear(in_features=5, out_features=3, bias=True)), which was given [8, 4] of float32"
        in last
    )
    assert last.endswith("Nothing was trained.")


def test_labels_that_do_not_fit_are_a_sentence_and_no_traceback(tmp_path: Path) -> None:
    ended = trueloop(written(tmp_path, ("torch.randint(0, 3", "torch.randint(1, 4")), "train", "mine.py")
    assert ended.code == 4
    assert "use targets - 1" in ended.err
    assert "Traceback" not in ended.err


def test_an_error_in_our_own_code_is_ours() -> None:
    with pytest.raises(AttributeError) as raised:
        exit_code(None)  # type: ignore[arg-type]
    assert raised.value.__traceback__ is not None
    assert not is_user_error(
        raised.value.with_traceback(raised.value.__traceback__.tb_next)
    )  # without this file, where it was called
    with pytest.raises(ZeroDivisionError) as theirs:
        as_set({"x": 1 / 0})
    assert is_user_error(theirs.value)


def test_a_full_memory_is_nobodys_bug_and_has_a_cure(tmp_path: Path) -> None:
    change = (
        "        return self.layer(x)",
        "        if self.training: raise torch.OutOfMemoryError('full')\n        return self.layer(x)",
    )
    ended = trueloop(written(tmp_path, change), "train", "mine.py")
    assert ended.code == 1
    assert "`--set accumulate=2` computes the same update with half the activations" in ended.err


def test_a_full_memory_of_the_host_names_what_was_asked_for_and_what_divides_it(tmp_path: Path) -> None:
    change = (
        "        return self.layer(x)",
        "        if self.training: torch.empty(1 << 50)\n        return self.layer(x)",
    )
    ended = trueloop(written(tmp_path, change), "train", "mine.py")
    assert ended.code == 1
    assert "or a limit of this process, refused 4,503,599,627.4 MB. `--set accumulate=2`" in ended.err
    assert "fsdp" not in ended.err


def test_with_several_processes_the_cure_is_also_to_divide_the_weights(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 50)
    assert is_user_error(raised.value.with_traceback(None))
    assert report_user_errors(raised.value.with_traceback(None)) == 1
    assert "`--set parallel=fsdp` divides weights, gradients and optimizer state" in capsys.readouterr().err


# -- endings --


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (Ending("finished", 1), 0),
        (Ending("early-stopped", 1), 0),
        (Ending("nonfinite", 1), 5),
        (Ending("collapsed", 1), 5),
        (Ending("failed", 1), 5),
        (Ending("signal", 1, signal=signal.SIGTERM), 143),
        (Ending("signal", 1, signal=signal.SIGINT), 130),
    ],
)
def test_the_exit_code_says_how_it_ended(ending: Ending, code: int) -> None:
    assert exit_code(ending) == code
    page = (Path(__file__).parent.parent.parent / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    assert f"`{code}`" in page


def test_a_run_that_meets_no_number_stops_with_its_finding_told_at_the_end(tmp_path: Path) -> None:
    change = ("return self.layer(x)", "return self.layer(x) * (float('nan') if self.training else 1)")
    ended = trueloop(written(tmp_path, change), "train", "mine.py")
    assert ended.code == 5
    assert "nan-or-inf" in ended.err
    assert "more  trueloop explain " in ended.err
    assert about(tmp_path)["status"] == "nonfinite"


def test_ctrl_c_before_the_first_step_leaves_quietly(tmp_path: Path) -> None:
    change = ("draws = torch.Gen", "import os, signal; os.kill(os.getpid(), signal.SIGINT)\n    draws = torch.Gen")
    ended = trueloop(written(tmp_path, change), "train", "mine.py")
    assert ended.code == 130
    assert "trueloop: interrupted." in ended.err
    assert "Traceback" not in ended.err


# -- resume --


def test_a_finished_run_has_nothing_to_resume_until_it_is_made_longer(tmp_path: Path) -> None:
    trueloop(written(tmp_path, ("epochs=3", "epochs=3, schedule='cosine'")), "train", "mine.py")
    ended = trueloop(tmp_path, "resume", "runs/mine")
    assert ended.code == 4
    assert "To train longer: --set epochs=N" in ended.err
    longer = trueloop(tmp_path, "resume", "runs/mine", "--set", "epochs=5")
    assert longer.code == 0, longer.err
    assert "note: schedule=cosine depends on the length of the run" in longer.err
    assert (about(tmp_path)["status"], about(tmp_path)["step"]) == ("finished", 20)


def test_a_longer_run_stays_longer_and_may_be_counted_in_steps(tmp_path: Path) -> None:
    trueloop(written(tmp_path), "train", "mine.py", "--set", "epochs=2")
    ended = trueloop(tmp_path, "resume", "runs/mine", "--set", "steps=10")
    assert ended.code == 0, ended.err
    assert "steps=10 replaces the recipe's epochs=2" in ended.err
    assert "schedule" not in ended.err
    run = about(tmp_path)
    assert (run["step"], run["recipe"]["steps"], run["recipe"]["epochs"]) == (10, 10, None)
    assert run["origin"]["settings"] == {"steps": "10"}
    assert trueloop(tmp_path, "resume", "runs/mine").code == 4


def test_a_run_made_longer_ends_as_one_that_was_long_from_the_start(tmp_path: Path) -> None:
    """With a schedule that does not depend on the length."""
    import torch

    for name, epochs in (("short", 1), ("long", 3)):
        trueloop(written(tmp_path), "train", "mine.py", "--name", name, "--set", f"epochs={epochs}")
    assert trueloop(tmp_path, "resume", "runs/short", "--set", "epochs=3").code == 0
    from safetensors.torch import load_file

    short, long = (
        load_file(next(iter(sorted((tmp_path / "runs" / name / "checkpoints").glob("*12/**/*.safetensors")))))
        for name in ("short", "long")
    )
    assert all(torch.equal(value, long[key]) for key, value in short.items())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Which run?"),
        (["runs/nothing"], "holds no run"),
        (["runs/mine", "--set", "lr"], "expected NAME=VALUE"),
        (
            ["runs/mine", "--set", "epochs=9", "--set", "lr=5"],
            "was trained with a different recipe (lr: 0.001, now 5.0)",
        ),
        (["runs/mine", "--set", "epoch=5"], "Did you mean epochs?"),
    ],
)
def test_what_cannot_be_resumed_is_told(words: list[str], said: str, tmp_path: Path) -> None:
    trueloop(written(tmp_path), "train", "mine.py")
    ended = trueloop(tmp_path, "resume", *words)
    assert ended.code == 4
    assert said in ended.err
    assert about(tmp_path)["status"] == "finished"


def test_digits_train_for_one_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its warm-up is a share of the run: one that is cut short is not all warm-up."""
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    monkeypatch.chdir(tmp_path)
    assert main(["train", "digits", "--set", "epochs=1", "--set", "device=cpu"]) == 0, capsys.readouterr().err
    told = json.loads((tmp_path / "runs" / "digits" / "run.json").read_text(encoding="utf-8"))
    assert (told["status"], told["step"]) == ("finished", told["total_steps"])


def test_a_warm_up_in_steps_that_is_longer_than_the_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    monkeypatch.chdir(tmp_path)
    assert main(["train", "digits", "--set", "epochs=1", "--set", "warmup=100"]) == 4
    assert "warmup=100 is as long as the run" in capsys.readouterr().err
