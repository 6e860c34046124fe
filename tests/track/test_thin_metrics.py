"""Rows of a checked script: few bytes, the same format, and never a row that cannot be read."""

from __future__ import annotations

import math
from pathlib import Path

from trueloop.hook import Row
from trueloop.track.chosen_metric import chosen_metric, is_higher_better
from trueloop.track.metrics import read_rows
from trueloop.track.thin_metrics import AT_FIRST, BYTES_PER_STEP, ThinMetrics


def _train(step: int, **values: float) -> Row:
    return Row("train", step, step / 8, {"loss": 1 / (step + 3), "lr": 0.001, **values, "seconds": step / 100})


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = ThinMetrics(tmp_path)
    file.add([_train(1, odd=math.nan), _train(2, **{'na"me\n': math.inf})])
    file.add([Row("valid", 2, 0.25, {"acc": 0.5, "seconds": 0.1}), Row("valid", 3, 0.25, {"acc": 0.4, "seconds": 0.2})])
    file.close()
    first, second, *valid = read_rows(tmp_path)
    assert (first.step, first.epoch, first.values["lr"], first.values["seconds"]) == (1, 0.125, 0.001, 0.01)
    assert math.isnan(first.values["odd"])
    assert second.values['na"me\n'] == math.inf
    assert [row.best for row in valid] == [True, False]


def test_a_loss_in_single_precision_keeps_all_its_bits(tmp_path: Path) -> None:
    import struct

    losses = [struct.unpack("f", struct.pack("f", value))[0] for value in (0.1, 1 / 3, 2.302585, 1e-7, 123456.789)]
    file = ThinMetrics(tmp_path)
    file.add([Row("train", step, 0, {"loss": loss, "seconds": 0.0}) for step, loss in enumerate(losses, 1)])
    read = [row.values["loss"] for row in read_rows(tmp_path)]
    assert [struct.pack("f", value) for value in read] == [struct.pack("f", value) for value in losses]


def test_long_rows_are_merged_and_their_losses_are_means(tmp_path: Path) -> None:
    many = {f"own/value_{number}": 0.1 for number in range(6)}
    file = ThinMetrics(tmp_path)
    steps = 4000
    for step in range(1, steps + 1):
        file.add([_train(step, **many)])
    file.close()
    rows = list(read_rows(tmp_path))
    assert (tmp_path / "metrics.jsonl").stat().st_size < AT_FIRST + 1.15 * BYTES_PER_STEP * steps
    assert rows[0].step == 1
    assert rows[-1].step == steps
    late = [row.step for row in rows[-10:]]
    width = late[1] - late[0]
    assert width > 1
    covered = range(late[-2] + 1, late[-1] + 1)
    assert math.isclose(rows[-1].values["loss"], sum(1 / (s + 3) for s in covered) / len(covered), rel_tol=1e-6)


def test_of_two_processes_the_first_writes(tmp_path: Path) -> None:
    one, two = ThinMetrics(tmp_path), ThinMetrics(tmp_path)
    one.add([_train(1)])
    two.add([_train(1), _train(2)])
    assert two.elsewhere
    assert not two.failure
    assert [row.step for row in read_rows(tmp_path)] == [1]


def test_the_metric_is_the_first_measure_or_the_loss() -> None:
    assert chosen_metric(["loss", "acc", "f1"]) == "acc"
    assert chosen_metric(["train_loss", "loss"]) == "loss"
    assert chosen_metric([]) == ""
    assert is_higher_better("acc")
    assert not is_higher_better("test_loss")
