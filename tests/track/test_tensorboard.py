"""What TensorBoard itself reads from the files: every value once, also after a resume and a return to a checkpoint."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.track.rows import finished, on_test, start, told, trained, validated
from trueloop.hook import Row
from trueloop.track.tensorboard import TensorBoard

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def read(folder: Path, tag: str) -> list[tuple[int, float]]:
    """(step, value), as TensorBoard's own reader has them."""
    events = accumulator.EventAccumulator(str(folder / "tensorboard"), size_guidance={accumulator.SCALARS: 0})
    events.Reload()
    return [(scalar.step, scalar.value) for scalar in events.Scalars(tag)]


def tags(folder: Path) -> set[str]:
    events = accumulator.EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return set(events.Tags()["scalars"])


def test_every_value_is_read_back_with_its_step(tmp_path: Path) -> None:
    told(TensorBoard(tmp_path), [trained(50, 0.5), validated(60, 0.875), trained(100, 0.25), on_test(60, 0.75)])
    assert read(tmp_path, "train/loss") == [(50, 0.5), (100, 0.25)]
    assert read(tmp_path, "valid/accuracy") == [(60, 0.875)]
    assert read(tmp_path, "test/accuracy") == [(60, 0.75)]
    assert {"train/lr", "train/gradient_norm", "train/samples_per_second", "valid/loss"} <= tags(tmp_path)


def test_values_are_floats_of_32_bits_and_nan_is_nan(tmp_path: Path) -> None:
    told(TensorBoard(tmp_path), [trained(50, 1 / 3), trained(100, math.nan), trained(150, math.inf)])
    (_, third), (_, nothing), (_, endless) = read(tmp_path, "train/loss")
    assert third == pytest.approx(1 / 3, rel=1e-7)
    assert math.isnan(nothing)
    assert endless == math.inf


def test_statistics_of_layers_are_there(tmp_path: Path) -> None:
    told(TensorBoard(tmp_path), [Row("layers", 50, 2.5, {"0.weight/gradient_norm": 0.5})])
    assert read(tmp_path, "layers/0.weight/gradient_norm") == [(50, 0.5)]


def test_a_row_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    registry = TensorBoard(tmp_path)
    registry.started(start())
    registry.logged(trained(50, 0.5))
    assert read(tmp_path, "train/loss") == [(50, 0.5)]
    registry.ended(finished())


def test_a_resumed_run_does_not_double_its_curve(tmp_path: Path) -> None:
    told(
        TensorBoard(tmp_path),
        [trained(50, 8.0), validated(60, 0.25), trained(100, 4.0), validated(120, 0.5), trained(150, 2.0)],
    )
    told(TensorBoard(tmp_path), [trained(100, 4.0), validated(120, 0.5), trained(150, 1.0)], from_step=60)
    assert read(tmp_path, "train/loss") == [(50, 8.0), (100, 4.0), (150, 1.0)]
    assert read(tmp_path, "valid/accuracy") == [(60, 0.25), (120, 0.5)]


def test_a_run_resumed_many_times_in_a_second_is_one_curve(tmp_path: Path) -> None:
    for step in range(12):
        told(TensorBoard(tmp_path), [trained(step + 1, float(step)), trained(step + 2, -1.0)], from_step=step)
    assert read(tmp_path, "train/loss") == [*((step + 1, float(step)) for step in range(12)), (13, -1.0)]


def test_a_run_that_begins_again_takes_everything_back(tmp_path: Path) -> None:
    told(TensorBoard(tmp_path), [trained(50, 8.0), trained(100, 4.0)])
    told(TensorBoard(tmp_path), [trained(50, 2.0)])
    assert read(tmp_path, "train/loss") == [(50, 2.0)]


def test_a_run_that_goes_back_to_a_checkpoint_takes_its_rows_back(tmp_path: Path) -> None:
    rows = [
        trained(50, 8.0),
        validated(60, 0.25),
        trained(100, 4.0),
        trained(150, 64.0),
        trained(100, 2.0),
        trained(150, 1.0),
    ]
    told(TensorBoard(tmp_path), rows)
    assert read(tmp_path, "train/loss") == [(50, 8.0), (100, 2.0), (150, 1.0)]
    assert read(tmp_path, "valid/accuracy") == [(60, 0.25)]


def test_ending_without_a_start_is_quiet(tmp_path: Path) -> None:
    TensorBoard(tmp_path).ended(finished())
    assert not (tmp_path / "tensorboard").exists()
