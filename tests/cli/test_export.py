"""`trueloop export`: what is typed, what is shown, what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from tests.export.made import RECIPE, run_here
from trueloop.cli.main import main
from trueloop.export.catalogue import runner_of
from trueloop.export.folder import read_artifact


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a recipe of the user's, with a moving average."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / "exported_shades.py").write_text(RECIPE, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert (
            main(["train", "exported_shades.py", "--set", "ema=0.5", "--set", "save_every=1", "--set", "keep=9"]) == 0
        )
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def there(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime without a process of its own, for tests that are not about it."""
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)


def test_a_run_becomes_weights_that_a_fresh_process_loads(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "shades", "--to", "safetensors"]) == 0
    said = capsys.readouterr().out
    assert "shades as safetensors: shades, moving average, step 3" in said
    assert "in its own process: 60 valid samples, batch sizes 1, 2, 7, 32, 18" in said
    made = read_artifact(there / "runs" / "shades" / "export" / "safetensors")
    assert not made.preprocessing["inside"]
    assert made.preprocessing["prepare"] == "exported_shades.scaled"
    assert made.run["weights"] == "ema"
    assert made.run["recipe"]["name"] == "shades"
    assert made.inputs[0].dtype == "float32"


@pytest.mark.usefixtures("there", "here")
def test_the_report_is_delivered_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["export", "shades", "--to", "torchscript", "--samples", "3", "--folder"]
    assert main([*asked, "as-json", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["version"], report["target"], report["folder"]) == (1, "torchscript", "as-json")
    assert report["verification"]["disagreements"] == 0
    assert main([*asked, "as-pages", "--output", "a.html", "--output", "a.md"]) == 0
    assert capsys.readouterr().out == ""
    assert "trueloop export: shades as torchscript" in Path("a.html").read_text(encoding="utf-8")
    assert "- difference: largest " in Path("a.md").read_text(encoding="utf-8")
    assert main([*asked, "quiet", "-q"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("there", "here")
def test_the_moving_average_leaves_as_in_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors.torch import load_file

    assert main(["export", "runs/shades", "--to", "torchscript", "--folder", "ema"]) == 0
    made = read_artifact("ema")
    assert made.verification is not None
    best = Path("runs/shades/checkpoints") / made.run["checkpoint"]
    average, weights = load_file(best / "ema.safetensors"), load_file(best / "model.safetensors")
    assert not torch.equal(average["second.bias"], weights["second.bias"])
    zeros = torch.full((1, 1, 3, 4), 127, dtype=torch.uint8)
    raw = zeros.float().flatten(1) / 127.5 - 1
    expected = (raw @ average["first.weight"].T + average["first.bias"]).relu() @ average["second.weight"].T + average[
        "second.bias"
    ]
    (answered,) = runner_of(made).run([zeros.numpy()])
    assert torch.allclose(torch.from_numpy(answered), expected, atol=1e-5)
    assert "2 other" not in capsys.readouterr().out


@pytest.mark.usefixtures("there", "here")
@pytest.mark.parametrize(("word", "step"), [("last", 3), ("1", 1), ("2", 2)])
def test_another_checkpoint_may_be_asked_for(word: str, step: int) -> None:
    assert (
        main(
            [
                "export",
                "shades",
                "--to",
                "torchscript",
                "--checkpoint",
                word,
                "--folder",
                f"at-{word}",
                "--samples",
                "3",
            ]
        )
        == 0
    )
    assert read_artifact(f"at-{word}").run["step"] == step


@pytest.mark.usefixtures("there", "here")
def test_a_readiness_note_is_on_the_card_if_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "shades", "--to", "torchscript", "--folder", "before", "--samples", "3"]) == 0
    assert "readiness (`trueloop ready`): not checked" in Path("before/CARD.md").read_text(encoding="utf-8")
    main(["ready", "shades"])
    assert (
        main(["export", "shades", "--to", "torchscript", "--folder", "after", "--samples", "3", "--license", "MIT"])
        == 0
    )
    card = Path("after/CARD.md").read_text(encoding="utf-8")
    assert "readiness (`trueloop ready`): not ready" in card or "readiness (`trueloop ready`): ready" in card
    assert "- model: MIT" in card
    capsys.readouterr()


@pytest.mark.usefixtures("there", "here")
def test_an_export_outside_the_tolerance_fails_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "trueloop.export.verify.run_in_subprocess",
        lambda *words: [[answer + 1 for answer in batch] for batch in run_here(*words)],
    )
    assert main(["export", "shades", "--to", "torchscript", "--folder", "wrong"]) == 1
    said = capsys.readouterr().err
    assert "does not give the model's outputs" in said
    assert "tolerance 0.0001" in said
    assert not Path("wrong").exists()


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Which run? Nothing was run"),
        (["shades"], "To which target? Nothing was run: type `trueloop export shades --to onnx`"),
        (["shades", "--to", "onxx"], "Unknown target 'onxx'. Did you mean onnx?"),
        (["shaeds", "--to", "onnx"], "There is no run 'shaeds'. Did you mean shades? Nothing was exported"),
        (["shades", "--to", "pt2", "--tolerance", "wide"], "--tolerance cannot be 'wide'"),
        (["shades", "--to", "pt2", "--tolerance", "-1"], "--tolerance cannot be '-1'"),
        (["shades", "--to", "pt2", "--samples", "0"], "--samples cannot be '0'"),
        (["shades", "--to", "pt2", "--checkpoint", "worst"], "The checkpoint cannot be 'worst'"),
        (["shades", "--to", "pt2", "--checkpoint", "77"], "has no checkpoint of step 77"),
        (["shades", "--to", "pt2", "--folder", "runs"], "it would be overwritten"),
        (["shades", "--to", "pt2", "--fast"], "There is no option --fast"),
    ],
)
def test_misuse_is_refused_with_a_sentence(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["export", *words]) == 4
    assert said in capsys.readouterr().err


def test_a_run_that_was_started_from_python_says_what_to_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"kind": "train", "origin": None}), encoding="utf-8")
    assert main(["export", str(tmp_path), "--to", "pt2"]) == 4
    assert "was started from Python" in capsys.readouterr().err


@pytest.mark.usefixtures("there")
def test_weights_that_no_longer_fit_the_recipe_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path("exported_shades.py")
    before = file.read_text(encoding="utf-8")
    file.write_text(
        before.replace("nn.Linear(12, 8)", "nn.Linear(12, 9)").replace("nn.Linear(8, 3)", "nn.Linear(9, 3)"),
        encoding="utf-8",
    )
    try:
        assert main(["export", "shades", "--to", "pt2"]) == 4
    finally:
        file.write_text(before, encoding="utf-8")
    assert "does not fit the model" in capsys.readouterr().err
