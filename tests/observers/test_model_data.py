"""What enters models and which rows are evaluated, however the batches were cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from trueloop.doctor.watch import Watch
from trueloop.event import Event, InputsSummarized, RowsCompared, TargetsSummarized
from trueloop.observers import evaluated_rows
from trueloop.results.check import Tally

Kind = TypeVar("Kind", bound=Event)


def events_of(kind: type[Kind], work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[Kind]:
    seen: list[Kind] = []
    monkeypatch.setattr(Tally, "hear", lambda _, event: seen.append(event) if isinstance(event, kind) else None)
    with Watch():
        work()
    return seen


def train(valid: Tensor, rows: Tensor, steps: int = 6) -> list[float]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(rows.shape[1], 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    labels, losses = (rows[:, 0] > 0).long(), []
    for _ in range(steps):
        for picked in torch.randperm(len(rows)).split(50):  # type: ignore[no-untyped-call]
            loss = nn.functional.cross_entropy(model(rows[picked]), labels[picked])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        losses += [model(part).sum().item() for part in valid.split(25)]  # type: ignore[no-untyped-call]
    return [*losses, torch.rand(()).item()]


def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(50, 6), torch.randn(200, 6)


def test_a_watched_run_is_bit_identical(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = train(*data())
    watched: list[float] = []
    assert events_of(RowsCompared, lambda: watched.extend(train(*data())), monkeypatch)
    assert watched == plain


def test_inputs_are_summarized_in_both_phases_over_distinct_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    training, evaluation = events_of(InputsSummarized, lambda: train(*data()), monkeypatch)
    assert (training.phase, evaluation.phase) == ("training", "evaluation")
    assert (training.kind, training.shape, training.arguments) == ("features", (50, 6), 1)
    assert training.calls == 24
    assert training.rows == 1200
    assert training.distinct_rows == 200
    assert training.classes == 2
    assert training.columns[0].predicts is not None
    assert training.columns[0].predicts > 0.98 > training.columns[0].margin
    assert training.columns[1].predicts is not None
    assert training.columns[1].predicts < 0.7
    assert evaluation.columns[0].predicts is None


def test_targets_are_summarized(monkeypatch: pytest.MonkeyPatch) -> None:
    (targets,) = events_of(TargetsSummarized, lambda: train(*data()), monkeypatch)
    assert (targets.function, targets.calls, targets.evaluation) == ("cross_entropy", 24, None)
    assert targets.training is not None
    assert targets.training.count == 1200
    assert [value for value, _ in sorted(targets.training.classes)] == [0, 1]


def test_rows_that_were_trained_on_are_counted_where_they_mix_with_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    valid, rows = data()
    mixed = torch.cat([valid, rows[:30]])[torch.randperm(80)]
    (clean,) = events_of(RowsCompared, lambda: train(valid, rows), monkeypatch)
    assert (clean.rows, clean.shared, clean.mixed, clean.training_rows) == (50, 0, 0, 200)
    (found,) = events_of(RowsCompared, lambda: train(mixed, rows), monkeypatch)
    assert (found.rows, found.shared, found.mixed, found.expected) == (80, 30, 30, 0)
    (apart,) = events_of(RowsCompared, lambda: train(torch.cat([valid, rows[:50]]), rows), monkeypatch)
    assert (apart.shared, apart.mixed) == (50, 0)


def test_windows_whose_end_was_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    windows = torch.randn(300).unfold(0, 16, 1)
    order = torch.randperm(len(windows))
    (random,) = events_of(RowsCompared, lambda: train(windows[order[:60]], windows[order[60:]]), monkeypatch)
    assert random.windows == 60
    assert random.known_windows > 50
    (in_time,) = events_of(RowsCompared, lambda: train(windows[230:], windows[:225]), monkeypatch)
    assert (in_time.windows, in_time.known_windows) == (55, 0)


def test_equal_new_batches_with_equal_outputs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    valid, rows = data()
    model = nn.Linear(6, 2)

    def work() -> None:
        model(rows).sum().backward()
        model.eval()
        few = valid[:10]
        with torch.no_grad():
            for _ in range(4):
                model(few)
            for _ in range(5):
                model(valid[:10])

    same, repeated = events_of(RowsCompared, work, monkeypatch)
    assert (same.calls, same.in_a_row) == (4, 0)
    assert (repeated.calls, repeated.distinct_batches, repeated.in_a_row) == (5, 1, 5)


def test_epochs_that_repeat_are_read_at_some_calls_and_new_rows_at_once_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = evaluated_rows._train

    def counting(trained: evaluated_rows._Trained, tensors: list[Tensor]) -> None:
        read.append(trained.calls)
        real(trained, tensors)

    monkeypatch.setattr(evaluated_rows, "_train", counting)
    valid, rows = data()

    def work() -> None:
        model = nn.Linear(6, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for part in (rows, torch.cat([rows, valid])):
            for _ in range(20):
                for batch in part.split(50):  # type: ignore[no-untyped-call]
                    optimizer.zero_grad()
                    model(batch).square().mean().backward()
                    optimizer.step()
        with torch.no_grad():
            model(torch.cat([valid, valid + 1]))

    (compared,) = events_of(RowsCompared, work, monkeypatch)
    assert read[:8] == [1, 2, 3, 4, 5, 6, 7, 8]  # two epochs
    assert all(call % evaluated_rows.REPEATED == 0 for call in read[8:] if call <= 80)
    assert len(read) < 60
    assert (compared.rows, compared.shared, compared.mixed, compared.training_rows) == (100, 50, 50, 250)


def test_ignored_targets_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        model = nn.Linear(6, 3)
        for start in range(0, 200, 50):
            labels = torch.arange(50) % 3
            labels[::5] = 2
            nn.functional.cross_entropy(model(data()[1][start : start + 50]), labels, ignore_index=2).backward()  # type: ignore[no-untyped-call]

    (targets,) = events_of(TargetsSummarized, work, monkeypatch)
    assert targets.training is not None
    assert {value for value, _ in targets.training.classes} == {0.0, 1.0}
