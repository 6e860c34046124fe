"""Weights of one model into another: the plan, the account of it, and a run that starts from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from tests.conftest import in_child
from tests.session.stopping import Words, recipe_of
from tests.torture.recipes import network
from trueloop.checkpoint.weight_transfer import Move, apply_transfer, plan_transfer, shapes_of
from trueloop.checkpoint.weights import read_weights, write_weights
from trueloop.cli.main import main
from trueloop.engine.loop import Loop
from trueloop.errors import BadCheckpoint, BadRecipe, CannotSave, Misuse
from trueloop.recipe.recipe import Recipe
from trueloop.session.train import resume, train

THEIRS = {"encoder.0.weight": (4, 3), "encoder.0.bias": (4,), "head.weight": (10, 4), "head.bias": (10,)}
OURS = {"backbone.0.weight": (4, 3), "backbone.0.bias": (4,), "head.weight": (2, 4), "head.bias": (2,)}


def test_a_mapping_renames_leaves_out_and_the_plan_says_it_all() -> None:
    plan = plan_transfer(THEIRS, OURS, {"encoder.*": "backbone.*", "head.*": None})
    assert [move.target for move in plan.loaded] == ["backbone.0.weight", "backbone.0.bias"]
    assert plan.left_out == ("head.weight", "head.bias")
    assert plan.missing == ("head.weight", "head.bias")
    assert not plan.mismatched + plan.reshaped
    assert not plan.unknown
    assert plan.summary() == (
        "2 of the model's 4 tensors loaded (16 values); 2 not in the saved weights, not loaded: head.weight, "
        "head.bias; 2 left out by start_map: head.weight, head.bias"
    )


def test_another_size_is_left_as_it_was_made_and_told() -> None:
    plan = plan_transfer(THEIRS, OURS, {"encoder.*": "backbone.*"})
    assert [str(move) for move in plan.mismatched] == ["head.weight 10x4 -> 2x4", "head.bias 10 -> 2"]
    assert "2 of a different size, not loaded: head.weight 10x4 -> 2x4, head.bias 10 -> 2" in plan.summary()


@pytest.mark.parametrize(
    ("before", "after", "fits"),
    [
        ((4, 3), (4, 3, 1, 1), True),
        ((1, 5), (5,), True),
        ((), (1,), True),
        ((4, 3), (3, 4), False),
        ((12,), (4, 3), False),
        ((2,), (3,), False),
    ],
)
def test_only_dimensions_of_one_are_reshaped(before: tuple[int, ...], after: tuple[int, ...], fits: bool) -> None:
    assert Move("a", "a", before, after).fits == fits


def test_names_the_model_does_not_know_are_told() -> None:
    plan = plan_transfer({"a": (1,), "b": (2,)}, {"a": (1,)}, {})
    assert plan.unknown == ("b",)
    assert "1 not in the model, skipped: b" in plan.summary()


def test_the_first_pattern_that_fits_counts() -> None:
    ours = {"x.weight": (4, 3), "backbone.0.bias": (4,)}
    plan = plan_transfer(THEIRS, ours, {"encoder.0.weight": "x.weight", "encoder.*": "backbone.*", "*": None})
    assert [move.target for move in plan.loaded] == ["x.weight", "backbone.0.bias"]
    assert plan.left_out == ("head.weight", "head.bias")


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        (
            {"encodr.*": "backbone.*"},
            r"No saved tensor matches the start_map pattern 'encodr.\*'. Did you mean encoder.\*\?",
        ),
        ({"encoder.*": "backbone.*", "encoder.*.bias*": None}, "each side may have one"),
        ({"encoder.0.bias": "head.bias"}, "maps both 'encoder.0.bias' and 'head.bias' to 'head.bias'"),
        ({"*": None}, "No saved tensor fits the model"),
    ],
)
def test_a_mapping_that_cannot_be_meant_is_refused(mapping: dict[str, str | None], said: str) -> None:
    with pytest.raises(BadRecipe, match=rf"{said}.*Nothing was run"):
        plan_transfer(THEIRS, OURS, mapping)


def test_a_wrappers_prefix_is_recognised() -> None:
    with pytest.raises(BadRecipe, match=r'Write start_map=\{"module.\*": "\*"\}'):
        plan_transfer({f"module.{name}": shape for name, shape in OURS.items()}, OURS, {})
    assert (
        len(plan_transfer({f"module.{name}": shape for name, shape in OURS.items()}, OURS, {"module.*": "*"}).loaded)
        == 4
    )


def test_the_plan_is_carried_out_in_place_with_types_and_shapes_of_the_model() -> None:
    theirs = {"0.weight": torch.randn(4, 3, dtype=torch.float64), "0.bias": torch.randn(4, 1)}
    layer = nn.Linear(3, 4)
    model, held = nn.Sequential(layer), layer.weight
    plan = plan_transfer(shapes_of(theirs), shapes_of(model.state_dict()), {})
    apply_transfer(plan, theirs, model)
    assert layer.weight is held
    assert torch.equal(held, theirs["0.weight"].float())
    assert torch.equal(layer.bias, theirs["0.bias"].reshape(4))
    assert [str(move) for move in plan.reshaped] == ["0.bias 4x1 -> 4"]


# -- from files --


@pytest.fixture
def pretrained() -> dict[str, torch.Tensor]:
    torch.manual_seed(5)
    return dict(network().state_dict())


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_plain_files_are_written_and_read(tmp_path: Path, pretrained: dict[str, torch.Tensor], suffix: str) -> None:
    file = tmp_path / f"weights{suffix}"
    assert write_weights({**pretrained, "extra": {"a": 1}}, file) == ["extra"]
    found, where = read_weights(file)
    assert where == str(file)
    assert all(torch.equal(found[name], pretrained[name]) for name in pretrained)
    with pytest.raises(Misuse, match=r"exists already. Nothing was written"):
        write_weights(pretrained, file)


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model", "weights"])
def test_weights_inside_somebody_elses_checkpoint_are_found(
    tmp_path: Path, pretrained: dict[str, torch.Tensor], key: str
) -> None:
    torch.save({"epoch": 3, key: pretrained}, tmp_path / "theirs.pth")
    assert set(read_weights(tmp_path / "theirs.pth")[0]) == set(pretrained)


def test_what_holds_no_weights_is_refused(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "empty.pt")
    torch.save(nn.Linear(1, 1), tmp_path / "module.pt")
    (tmp_path / "words.txt").write_text("words")
    with pytest.raises(BadCheckpoint, match="holds no named tensors"):
        read_weights(tmp_path / "empty.pt")
    with pytest.raises(BadCheckpoint, match="not safe to read"):
        read_weights(tmp_path / "module.pt")
    with pytest.raises(BadCheckpoint, match=r"neither a folder nor a .safetensors or .pt file"):
        read_weights(tmp_path / "words.txt")
    with pytest.raises(BadCheckpoint, match="No such file"):
        read_weights(tmp_path / "nowhere.pt")


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path: Path, pretrained: dict[str, torch.Tensor]) -> None:
    with pytest.raises(CannotSave, match="could not be written"):
        write_weights(pretrained, tmp_path / "no" / "folder.safetensors")


# -- in a run --


def starting(recipe: Recipe, path: Path, **mapping: str | None) -> Recipe:
    return replace(
        recipe, start_from=str(path), start_map={name.replace("_", "."): value for name, value in mapping.items()}
    )


def test_a_run_starts_from_the_weights_it_names_and_says_so(
    tmp_path: Path, pretrained: dict[str, torch.Tensor]
) -> None:
    file = tmp_path / "weights.safetensors"
    write_weights(pretrained, file)
    words = Words()
    loop = Loop.of(replace(starting(recipe_of("workers"), file), start_map={"4.*": None}), hooks=words)
    fresh = Loop.of(recipe_of("workers"))
    for model in (loop.parts.model, loop.parts.ema.model if loop.parts.ema else nn.Identity()):
        assert torch.equal(model.state_dict()["0.weight"], pretrained["0.weight"]), (
            "the moving average begins there too"
        )
        assert torch.equal(model.state_dict()["4.weight"], fresh.parts.model.state_dict()["4.weight"]), (
            "the rest as without start_from"
        )
    assert words.notes == [
        f"start_from {file}: 7 of the model's 9 tensors loaded (545 values); "
        "2 not in the saved weights, not loaded: 4.weight, 4.bias; 2 left out by start_map: 4.bias, 4.weight."
    ]


def test_a_run_starts_from_the_best_of_another_run(tmp_path: Path) -> None:
    def work() -> Any:
        done = train(recipe_of("workers", workers=0), name="first", runs=tmp_path, hooks=[])
        found, where = read_weights(tmp_path / "first")
        words = Words()
        loop = Loop.of(starting(recipe_of("workers"), tmp_path / "first"), hooks=words)
        same = all(torch.equal(found[name], value) for name, value in loop.parts.model.state_dict().items())
        return done.best_checkpoint, where, same, words.notes[0]

    best, where, same, note = in_child(work)
    assert where == f"{best} (its moving average)"
    assert same
    assert "9 of the model's 9 tensors loaded" in note


def test_a_resumed_run_goes_on_from_its_own_checkpoints_and_needs_no_other(
    tmp_path: Path, pretrained: dict[str, torch.Tensor]
) -> None:
    file = tmp_path / "weights.pt"
    torch.save(pretrained, file)
    recipe = starting(recipe_of("resident"), file)

    def work() -> list[str]:
        loops = Words(), Words()
        train(replace(recipe, hooks=()), name="run", runs=tmp_path, hooks=[loops[0]])
        from trueloop.session.folder import RunFolder

        folder = RunFolder.open(tmp_path / "run")
        folder.write(status="running")
        folder.close()
        resume(recipe, tmp_path / "run", hooks=[loops[1]])
        return [" ".join(words.notes) for words in loops]

    first, second = in_child(work)
    assert "start_from" in first
    assert "start_from" not in second


# -- the verb --


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    in_child(lambda: bool(train(recipe_of("workers", workers=0), name="mine", runs=runs, hooks=[])))
    return runs / "mine"


def newest(run: Path) -> Path:
    return sorted((run / "checkpoints").glob("step-*"))[-1]


def test_show_tells_what_a_checkpoint_holds(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (run, run / "checkpoints", newest(run)):
        assert main(["checkpoint", "show", str(path)]) == 0
        said = capsys.readouterr().out
        for part in ("step", "epoch", "best", "accuracy", "torch", "recipe", "ema=0.98", "training.pt", "sha256"):
            assert part in said
        assert ["0.weight", "32x12", "F32", "384"] in [line.split() for line in said.splitlines()]
        assert "ema.safetensors: 9 tensors, 677 numbers" in said
    assert main(["checkpoint", "show", str(run)]) == 0
    assert "shown below" in capsys.readouterr().out


def test_every_action_reports_in_every_format(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    for action, part in (("show", "0.weight"), ("verify", "is valid"), ("convert", "tensors")):
        for name in ("text", "json", "html", "markdown"):
            assert main(["checkpoint", action, str(run), "--to", str(tmp_path / f"{name}.pt"), "--format", name]) == 0
            said = capsys.readouterr().out
            assert part in said
            assert name != "json" or json.loads(said)["version"] == 1
    assert main(["checkpoint", "verify", str(run), "-q"]) == 0
    assert capsys.readouterr().out == ""


def test_show_and_verify_load_no_torch(run: Path) -> None:
    import subprocess
    import sys

    for action in ("show", "verify"):
        call = f"main(['checkpoint', {action!r}, {str(run)!r}])"
        code = f"import sys; from trueloop.cli.main import main; {call}; assert 'torch' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_verify_says_which_are_whole(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    assert main(["checkpoint", "verify", str(run)]) == 0
    assert capsys.readouterr().out.count("is valid") == len(list((run / "checkpoints").iterdir()))
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (newest(copy) / "training.pt").write_bytes(b"")
    assert main(["checkpoint", "verify", str(copy)]) == 1
    assert main(["checkpoint", "verify", str(newest(copy))]) == 1
    assert "training.pt is damaged: 0 bytes instead of" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_convert_writes_what_others_can_load(
    run: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / f"{name}{suffix}" for name in ("model", "ema")]
    assert main(["checkpoint", "convert", str(run), "--to", str(files[0]), "--weights", "model"]) == 0
    assert "(model: the trained weights; the moving average was evaluated)" in capsys.readouterr().out
    assert main(["checkpoint", "convert", str(run), "--to", str(files[1])]) == 0
    read = safetensors.torch.load_file if suffix == ".safetensors" else lambda file: torch.load(file, weights_only=True)
    model, ema = (read(file) for file in files)
    network().load_state_dict(model)
    network().load_state_dict(ema)
    assert not torch.equal(model["0.weight"], ema["0.weight"])
    assert "(ema: the moving average, which was evaluated)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Show, verify or convert?"),
        (["shwo", "x"], "Did you mean show"),
        (["show"], "Which checkpoint"),
        (["show", "nowhere"], "nowhere does not exist"),
        (["convert", "."], "Which file?"),
        (["convert", ".", "--to", "x.onnx"], "Which file?"),
    ],
)
def test_wrong_words_are_refused_with_the_right_ones(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoint", *words]) == 4
    told = capsys.readouterr().err
    assert said in told
    assert "Nothing was" in told


def test_an_average_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    in_child(lambda: bool(train(recipe_of("resident", epochs=1, warmup=0), name="plain", runs=tmp_path, hooks=[])))
    assert (
        main(["checkpoint", "convert", str(tmp_path / "plain"), "--to", str(tmp_path / "a.pt"), "--weights=ema"]) == 4
    )
    assert "has no moving average" in capsys.readouterr().err
    assert not (tmp_path / "a.pt").exists()
