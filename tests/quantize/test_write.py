"""From a quantized model to a verified artifact, to every target that can take it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.export.made import run_here, subject
from tests.quantize.made import Pictured, sides, usable_scheme
from trueloop.errors import CannotExport
from trueloop.export.catalogue import find_exporter, runner_of
from trueloop.quantize.catalogue import SCHEMES
from trueloop.quantize.quantize_model import quantize_model
from trueloop.quantize.write import check_target, compare_with_float, medians, write_quantized


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("target", ["pt2", "onnx", "torchscript"])
@pytest.mark.parametrize("name", [*sorted(set(SCHEMES) - {"qat"}), pytest.param("qat", marks=pytest.mark.long)])
def test_every_scheme_reaches_every_target_or_says_why_not(name: str, target: str, tmp_path: Path) -> None:
    scheme, exporter, of = usable_scheme(name), find_exporter(target), subject(Pictured)
    if target in scheme.refuses:
        with pytest.raises(
            CannotExport, match=f"{name} cannot be exported to {target}: .*Nothing was run. Possible targets: pt2"
        ):
            check_target(scheme, exporter)
        return
    check_target(scheme, exporter)
    decided = quantize_model(of, scheme, target, max_drop=1.0, calibrated=32)
    made = write_quantized(of, scheme, decided, exporter, tmp_path / "made")
    tried = made.verification
    assert tried is not None
    assert tried.passed
    assert tried.tolerance == 1e-4 or scheme.rounds_activations
    assert made.run["quantized"]["scheme"] == name
    assert any(note.startswith(f"Quantized by {name}: accuracy ") for note in made.notes)
    assert f"Quantized by {name}" in (tmp_path / "made" / "CARD.md").read_text(encoding="utf-8")


def test_it_is_run_elsewhere_without_torchao(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that cannot import torchao runs it: the artifact is made of torch's own operations."""
    blocked = tmp_path / "blocked" / "torchao"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    scheme, of = usable_scheme("int8-static"), sides()
    decided = quantize_model(of, scheme, "pt2", max_drop=1.0, calibrated=32)
    monkeypatch.setenv("PYTHONPATH", str(blocked.parent))
    made = write_quantized(of, scheme, decided, find_exporter("pt2"), tmp_path / "made")
    assert made.verification is not None
    assert made.verification.passed


@pytest.mark.parametrize("target", ["safetensors", "executorch"])
@pytest.mark.parametrize("name", ["int8-weight", "int8-static"])
def test_targets_without_quantized_models_are_refused_before_anything_is_computed(name: str, target: str) -> None:
    with pytest.raises(
        CannotExport, match=f"{name} cannot be exported to {target}: .* Possible targets: pt2, onnx, aoti"
    ):
        check_target(usable_scheme(name), find_exporter(target))


@pytest.mark.usefixtures("here")
def test_a_program_that_answers_otherwise_than_the_quantized_model_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def off(folder: Path, batches: list[list[object]], device: str) -> list[list[object]]:
        return [[array + 1.0 for array in answered] for answered in run_here(folder, batches)]  # type: ignore[arg-type]

    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", off)
    scheme, of = usable_scheme("int8-weight"), sides()
    decided = quantize_model(of, scheme, "pt2", max_drop=1.0)
    with pytest.raises(CannotExport, match="does not give the model's outputs"):
        write_quantized(of, scheme, decided, find_exporter("pt2"), tmp_path / "made")
    assert not (tmp_path / "made").exists()


@pytest.mark.usefixtures("here")
def test_speed_and_files_are_told_beside_those_of_the_float_model(tmp_path: Path) -> None:
    scheme, exporter, of = usable_scheme("int8-weight"), find_exporter("onnx"), subject(Pictured)
    decided = quantize_model(of, scheme, "onnx", max_drop=1.0)
    made = write_quantized(of, scheme, decided, exporter, tmp_path / "made")
    told = compare_with_float(decided.report, of, exporter, made)
    assert [speed.batch for speed in told.speeds] == [1, 32]
    assert all(speed.before > 0 and speed.after > 0 for speed in told.speeds)
    assert told.files[1] == made.file.stat().st_size
    assert told.files[0] > 0
    assert replace(told, speeds=(), files=(0, 0)) == decided.report


@pytest.mark.usefixtures("here")
def test_an_artifact_takes_any_batch(tmp_path: Path) -> None:
    scheme, of = usable_scheme("int8-static"), subject(Pictured)
    made = write_quantized(
        of, scheme, quantize_model(of, scheme, "pt2", max_drop=1.0), find_exporter("pt2"), tmp_path / "made"
    )
    images = of.fetch(torch.arange(50)).inputs.numpy()
    assert [runner_of(made).run([images[:size]])[0].shape for size in (1, 5, 50)] == [(1, 3), (5, 3), (50, 3)]


def test_medians_are_taken_in_turns_by_the_clock_that_is_given() -> None:
    now, calls = [0.0], []

    def call(name: str, seconds: float) -> None:
        calls.append(name)
        now[0] += seconds

    found = medians([lambda: call("a", 1.0), lambda: call("b", 3.0)], rounds=2, turn=2.5, clock=lambda: now[0])
    assert found == [1.0, 3.0]
    assert "".join(calls) == "ab" + "aaab" * 2, "once each to warm up, then in turns"
