"""`trueloop plan` as it is typed: wrong words, recipes with and without their data, what is printed."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trueloop.cli.main import main
from trueloop.cli.plan import KNOWN
from trueloop.cli.train import recipe_for, without_nproc
from trueloop.recipe.validate import find_problems
from trueloop.recipes.catalogue import bundled

ROOT = Path(__file__).parents[2]
ASKED = ("--gpus", "8", "--memory", "80GB", "--bandwidth", "600GB/s")
FILE = '''"""A small network of four blocks."""
import torch
from torch import nn
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import Recipe


def net():
    blocks = [nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)) for _ in range(4)]
    return nn.Sequential(*blocks, nn.Linear(64, 8))


def read(request):
    return Splits(Tensors(torch.randn(64, 64), torch.randint(0, 8, (64,))))


recipe = Recipe(name="blocks", model=net, data=read, epochs=1, batch=64)
'''


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TRUELOOP_DATA", raising=False)
    (tmp_path / "blocks.py").write_text(FILE, encoding="utf-8")
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in ("blocks", "broken", "frozen", "gpt2_124m"):  # the next one has its own file of this name
        sys.modules.pop(name, None)


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["plan", *words, "--format", "json"]) == 0
    made: dict[str, Any] = json.loads(capsys.readouterr().out)
    return made


# -- wrong words --


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Which recipe? Nothing was run: type `trueloop plan shakespeare --gpus 8"),
        (["digits"], "A plan needs --gpus and --memory and --bandwidth. Nothing was run"),
        (["digits", "--gpus", "8", "--memory", "80GB"], "A plan needs --bandwidth."),
        (
            ["digits", *ASKED, "--gpus", "0"],
            "--gpus cannot be '0': expected a whole number from 1 to 1024. Nothing was run",
        ),
        (["digits", *ASKED, "--gpus", "1025"], "--gpus cannot be '1025'"),
        (["digits", *ASKED, "--gpus", "many"], "--gpus cannot be 'many'"),
        (
            ["digits", *ASKED, "--memory", "80"],
            "--memory cannot be '80': expected a size such as 80GB or 24GiB. Nothing was run",
        ),
        (
            ["digits", *ASKED, "--bandwidth", "600GB"],
            "--bandwidth cannot be '600GB': expected a bandwidth such as 600GB/s",
        ),
        (
            ["digits", *ASKED, "--gpus", "12"],
            "12 GPUs do not fill nodes of 8. Nothing was run: set --gpus",
        ),
        (["digits", "--gpus", "8", "--gpu-type", "h1000"], "Did you mean h100?"),
        (["digits", *ASKED, "--between", "50"], "--between cannot be '50': expected a bandwidth"),
        (["digits", *ASKED, "--latency", "5"], "--latency cannot be '5': expected a time"),
        (["digits", *ASKED, "--step", "45"], "--step cannot be '45': expected a time such as 45ms"),
        (
            ["digits", *ASKED, "--format", "jso"],
            "--format cannot be 'jso'. Did you mean json? Choose: text, json, html, markdown. Nothing was run",
        ),
        (["digits", *ASKED, "--input", "axb"], "--input cannot be 'axb': expected a shape such as 3x224x224"),
        (["digits", *ASKED, "--input", "8:int8"], "--input cannot be '8:int8': expected a shape"),
        (["digits", *ASKED, "--outputs", "0", "--input", "8"], "--outputs cannot be '0'"),
        (["digits", *ASKED, "--outputs", "3"], "--outputs needs --input SHAPE."),
        (["digits", *ASKED, "--input", "8", "--download"], "--input replaces the data"),
        (["digits", *ASKED, "--data", "nowhere"], "--data cannot be 'nowhere': there is no such folder."),
        (["digits", *ASKED, "--gpu", "8"], "There is no option --gpu. Did you mean --gpus?"),
        (["digit", *ASKED], "There is no recipe 'digit'. Did you mean digits?"),
        (["digits", *ASKED, "--set", "batch=0"], "batch"),
        (["digits", *ASKED, "--set", "optimizer=adamx"], "there is no optimizer 'adamx'"),
        (["digits", *ASKED, "--set", "no_such=1"], "no_such"),
    ],
)
def test_wrong_words_are_refused_with_what_to_type(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words]) == 4
    caught = capsys.readouterr()
    assert said in caught.err
    assert caught.out == ""


def test_the_verb_is_listed_and_helps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "\n  plan " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    assert "--bandwidth RATE" in capsys.readouterr().out


# -- what is printed --


def test_a_file_is_planned_as_a_table_with_reasons_and_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "blocks.py", *ASKED, "--set", "batch=128"]) == 0
    text = capsys.readouterr().out
    assert "blocks.py on 8 GPUs of 80 GB, 600 GB/s" in text
    assert "4 repeated blocks" in text
    assert "batch 128, fp32, adamw" in text
    assert sum(line.startswith("→") and "yes" in line for line in text.splitlines()) == 1
    assert "recommended  " in text
    assert text.count("\n! assumed  ") >= 5
    assert not list(Path.cwd().glob("runs*"))


def test_json_holds_every_way_and_where_its_numbers_are_from(capsys: pytest.CaptureFixture[str]) -> None:
    made = _json(capsys, "blocks.py", *ASKED)
    names = [row["name"] for row in made["rows"]]
    assert {"one GPU", "ddp", "fsdp", "tp 8", "fsdp+tp 2", "ddp + checkpointing", "fsdp + checkpointing"} <= set(names)
    for row in made["rows"]:
        parts = [row["memory"][part] for part in ("parameters", "gradients", "optimizer", "activations", "workspace")]
        assert sum(part["value"] for part in parts) == pytest.approx(row["memory"]["total"])
        assert all(part["basis"] in ("computed", "measured", "assumed") and part["how"] for part in parts)
    assert made["recommended"]["way"] in names
    assert made["facts"]["numbers"] == 4 * (2 * 64 * 256 + 256 + 64) + 64 * 8 + 8


def test_a_measured_step_takes_the_place_of_the_assumed_rate(capsys: pytest.CaptureFixture[str]) -> None:
    made = _json(capsys, "blocks.py", *ASKED, "--step", "45ms")
    ddp = next(row for row in made["rows"] if row["name"] == "ddp")
    assert ddp["step"]["value"] == pytest.approx(0.045, rel=0.01)
    assert "measured step" in ddp["speedup"]["how"]
    assert not any("--step" in text for text in made["assumed"])


def test_settings_change_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    adam, sgd = (_json(capsys, "blocks.py", *ASKED, "--set", f"optimizer={name}") for name in ("adamw", "sgd"))
    assert adam["facts"]["state_bytes"] == 2 * adam["facts"]["parameter_bytes"]
    assert sgd["facts"]["state_bytes"] == 0
    assert sgd["optimizer"] == "sgd"


def test_the_report_goes_to_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["plan", "blocks.py", *ASKED, "--output", "plan.txt"]) == 0
    assert capsys.readouterr().out == ""
    assert "recommended  " in (tmp_path / "plan.txt").read_text(encoding="utf-8")


def test_where_no_way_fits_it_is_said_and_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "blocks.py", "--gpus", "2", "--memory", "1MB", "--bandwidth", "25Gb/s"]) == 0
    text = capsys.readouterr().out
    assert "no way fits" in text
    assert "No strategy fits: the smallest, " in text


def test_1024_gpus_with_a_batch_of_64_say_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "blocks.py", *ASKED, "--gpus", "1024"]) == 0
    assert "a batch of 64 cannot be split over 1,024: give --set batch=1024, or more" in capsys.readouterr().out


def test_a_named_gpu_stands_for_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    made = _json(capsys, "blocks.py", "--gpus", "8", "--gpu-type", "h200")
    assert (made["memory"], made["bandwidth"]) == (141e9, 450e9)
    assert any("an H200's peak" in text for text in made["assumed"])
    given = _json(capsys, "blocks.py", "--gpus", "8", "--gpu-type", "h200", "--memory", "20GB")
    assert given["memory"] == 20e9


def test_a_pipeline_has_its_command_with_the_micro_batches_that_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    made = _json(capsys, "blocks.py", "--gpus", "4", *ASKED[2:])
    row = next(row for row in made["rows"] if row["name"] == "pp 4")
    assert row["command"] == "trueloop train blocks.py --nproc 4 --set parallel=pp --set accumulate=4"
    eight = _json(capsys, "blocks.py", *ASKED)
    assert "pp 8" not in str(eight["rows"]), "4 blocks have no 8 stages"


def test_the_printed_command_is_one_that_train_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """Every row: read back by the parser of train itself, its recipe without a problem."""
    made = _json(capsys, "blocks.py", *ASKED, "--set", "batch=128", "--set", "precision=bf16")
    for row in made["rows"]:
        words = shlex.split(row["command"])
        assert words[:3] == ["trueloop", "train", "blocks.py"]
        assert (words[3:5] == ["--nproc", "8"]) is (row["way"]["kind"] != "none")
        recipe = recipe_for(without_nproc(words[2:]))
        assert not find_problems(recipe)
        assert recipe.accumulate == row["accumulate"]
        assert recipe.activation_checkpointing is row["way"]["recompute"]
        assert recipe.parallel == ("auto" if row["way"]["kind"] in ("none", "ddp") else row["way"]["kind"])


def test_on_several_nodes_the_command_is_a_launch(capsys: pytest.CaptureFixture[str]) -> None:
    made = _json(capsys, "blocks.py", *ASKED, "--gpus", "16", "--set", "batch=128")
    launch = "trueloop launch --nnodes 2 --nproc 8 --node-rank I --rendezvous NODE0:29500 -- train blocks.py"
    ddp = next(row for row in made["rows"] if row["name"] == "ddp")
    assert ddp["command"] == f"{launch} --set batch=128"


def test_what_the_recipe_itself_forbids_is_not_offered(capsys: pytest.CaptureFixture[str]) -> None:
    made = _json(capsys, "blocks.py", *ASKED, "--set", "precision=fp16")
    assert {row["way"]["kind"] for row in made["rows"]} == {"none", "ddp"}
    fsdp = next(each for each in made["unsupported"] if each["name"] == "fsdp")
    assert "precision=fp16 needs a gradient scaler, which parallel=fsdp does not support" in fsdp["why"]


# -- data --


@pytest.mark.parametrize("name", KNOWN)
def test_bundled_recipes_are_planned_without_their_data(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert name in bundled()
    assert main(["plan", name, *ASKED]) == 0
    caught = capsys.readouterr()
    assert "note: the data are not here; the shape of a sample, " in caught.err
    assert "recommended  " in caught.out


def test_data_whose_shape_nobody_knows_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "sentiment", *ASKED]) == 4
    said = capsys.readouterr().err
    assert "was not found" in said
    assert "--input SHAPE" in said


def test_a_shape_stands_for_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    made = _json(
        capsys, str(ROOT / "benchmarks" / "gpt2_124m.py"), *ASKED, "--input", "1024:int64", "--set", "precision=bf16"
    )
    assert made["facts"]["numbers"] == 124_475_904
    assert made["recommended"]["way"] == "ddp"
    command = f"trueloop train {ROOT / 'benchmarks' / 'gpt2_124m.py'} --nproc 8 --set precision=bf16"
    assert made["recommended"]["command"] == command


def test_the_folder_that_the_user_names_must_hold_the_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["plan", "mnist", *ASKED, "--data", "empty"]) == 4
    assert "was not found" in capsys.readouterr().err


def test_what_the_users_model_raises_is_theirs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.py").write_text(FILE.replace("nn.Linear(64, 8)", "nn.Linear(63, 8)"), encoding="utf-8")
    assert main(["plan", "broken.py", *ASKED]) == 1
    assert "cannot be multiplied" in capsys.readouterr().err


def test_a_model_that_cannot_learn_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frozen = FILE.replace(
        "return nn.Sequential(*blocks, nn.Linear(64, 8))", "return nn.Sequential(*blocks).requires_grad_(False)"
    )
    (tmp_path / "frozen.py").write_text(frozen, encoding="utf-8")
    assert main(["plan", "frozen.py", *ASKED]) == 4
    assert "no trainable parameter" in capsys.readouterr().err


def test_a_small_model_takes_ddp_where_hsdp_is_faster_only_by_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    made = _json(capsys, "digits", "--set", "batch=4096", *ASKED)
    speeds = {row["way"]["kind"]: row["speedup"]["value"] for row in made["rows"]}
    assert speeds["hsdp"] > 1.05 * speeds["ddp"]
    assert made["rows"][made["chosen"]]["way"]["kind"] == "ddp"
    assert any(why.endswith("within the error of the estimate (15%), and simpler.") for why in made["reasons"])
