"""From a run's folder to the model that leaves: the right checkpoint, the right weights, on the CPU, in evaluation
mode."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from tests.export.made import RECIPE, run_here, subject
from trueloop.cli.main import main
from trueloop.data.text import Vocabulary
from trueloop.errors import BadCheckpoint, Misuse
from trueloop.export.export_model import export_model
from trueloop.export.torchscript import Torchscript
from trueloop.export.trained_model import Origin, TrainedModel, load_trained_model
from trueloop.session.folder import read_about


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps, each with a checkpoint."""
    folder = tmp_path_factory.mktemp("subject")
    (folder / "subject_shades.py").write_text(RECIPE, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["train", "subject_shades.py", "--set", "save_every=1", "--set", "keep=9"]) == 0
    finally:
        os.chdir(before)
    return folder / "runs" / "shades"


@pytest.fixture
def made(run: Path, monkeypatch: pytest.MonkeyPatch) -> TrainedModel:
    monkeypatch.chdir(run.parent.parent)
    return _subject(run)


def _subject(run: Path, checkpoint: str = "best") -> TrainedModel:
    return load_trained_model(Origin.of_run(run, read_about(run), checkpoint=checkpoint, readiness="ready"))


def test_the_model_is_ready_to_answer(made: TrainedModel) -> None:
    assert not made.model.training
    assert not any(each.requires_grad for each in made.model.parameters())
    assert {each.device.type for each in made.model.parameters()} == {"cpu"}


def test_where_it_is_from_is_told(made: TrainedModel) -> None:
    assert made.run["id"] == "shades"
    assert made.run["step"] == 3
    assert made.run["weights"] == "model"
    assert made.run["readiness"] == "ready"
    assert made.run["metrics"]["metric"] == "accuracy"
    assert made.run["recipe"]["batch"] == 20
    assert Path(made.run["origin"]["recipe"]).name == "subject_shades.py"


def test_checkpoints_differ_and_are_found_by_their_step(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent.parent)
    weights = [_subject(run, word).model.state_dict()["first.weight"] for word in ("1", "2", "last")]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    assert torch.equal(weights[2], _subject(run, "3").model.state_dict()["first.weight"])


@pytest.mark.parametrize(
    ("word", "said"),
    [("worst", "write best, last or a step"), ("9", r"no checkpoint of step 9.*Available steps: 1, 2, 3\.")],
)
def test_a_checkpoint_that_is_not_there_is_refused(
    run: Path, monkeypatch: pytest.MonkeyPatch, word: str, said: str
) -> None:
    monkeypatch.chdir(run.parent.parent)
    with pytest.raises(Misuse, match=said):
        _subject(run, word)


def test_a_folder_without_checkpoints_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent.parent)
    with pytest.raises(BadCheckpoint):
        load_trained_model(Origin.of_run(tmp_path, read_about(run)))


def test_building_a_subject_draws_no_random_number(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent.parent)
    before = torch.get_rng_state()
    _subject(run)
    assert torch.equal(torch.get_rng_state(), before)


def test_facts_are_plain_and_hold_no_vocabulary() -> None:
    made = subject()
    object.__setattr__(
        made.splits.facts, "more", {"text": {"words": ["a"]}, "tokens": ["a"], "mean": 1.5, "shape": (1, 2)}
    )
    assert made.facts()["more"] == {"mean": 1.5, "shape": [1, 2]}
    assert made.facts()["classes"] == ["dark", "grey", "light"]


def test_the_range_of_raw_points_is_told() -> None:
    lowest, highest = subject().preprocessing(inside=True)["range"]
    assert 0 <= lowest < 20
    assert 235 < highest <= 255


def test_prepared_samples_are_what_a_file_without_preprocessing_takes() -> None:
    made = subject()
    program = made.program()
    assert made.example(program, inside=True).ports[0].dtype == "uint8"
    assert made.example(program, inside=False).ports[0].dtype == "float32"
    assert made.preprocessing(inside=True)["inside"]
    assert not made.preprocessing(inside=False)["inside"]


def test_a_vocabulary_travels_with_the_model_and_reads_the_same() -> None:
    vocabulary = Vocabulary.of(["a good film", "a bad film, really", "good good"], buckets=64)
    told = json.loads(json.dumps(vocabulary.plain()))
    back = Vocabulary.read(told)
    assert back == vocabulary
    for line in ("a good film", "never seen before", ""):
        assert back.row(line) == vocabulary.row(line)
    assert told["encoding"] == "words"


@pytest.mark.parametrize("missing", ["words", "buckets", "pieces"])
def test_a_vocabulary_without_a_part_is_refused(missing: str) -> None:
    told = Vocabulary.of(["a good film"]).plain()
    del told[missing]
    with pytest.raises(KeyError):
        Vocabulary.read(told)


NAN = """
def odd(output, targets):
    return output.sum(1) * float("nan")


recipe = replace(recipe, metrics={"odd": odd}, metric="odd")
"""


def test_a_run_whose_validation_is_nan_has_no_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nan_shades.py").write_text(f"from dataclasses import replace\n{RECIPE}{NAN}", encoding="utf-8")
    assert main(["train", "nan_shades.py"]) == 0
    assert "best       none: validation odd is nan" in capsys.readouterr().out
    run = tmp_path / "runs" / "shades"
    assert read_about(run)["best"] is None
    made = _subject(run)
    assert made.run["unranked"]
    assert not _subject(run, "last").run["unranked"], "asked for by its name"
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
    notes = export_model(made, Torchscript(), tmp_path / "out").notes
    assert "The run has no best checkpoint: no evaluation gave a finite odd that beats a constant answer." in notes[1]
