"""Outputs beside targets: right, at chance, renamed."""

import torch

from trueloop.measure.answers import Answers, judge
from trueloop.measure.probe import transfer


def _outputs(classes: torch.Tensor, count: int) -> torch.Tensor:
    return 4 * torch.nn.functional.one_hot(classes, count).double()


def test_renamed_classes_are_a_permutation_and_confused_ones_are_not() -> None:
    classes = torch.arange(4).repeat(50)
    renamed = torch.tensor([1, 0, 2, 3])[classes]
    found = judge((_outputs(classes, 4), renamed.double().unsqueeze(1)))
    assert found is not None
    assert found.kind == "classes"
    assert dict(found.moved) == {0: 1, 1: 0}
    merged = classes.clamp_min(1)  # class 0 is taken for class 1
    found = judge((_outputs(merged, 4), classes.double().unsqueeze(1)))
    assert found is not None
    assert found.moved == ()


def test_targets_are_found_by_their_row_when_a_later_call_has_none() -> None:
    answers = Answers()
    rows = list(range(120))
    answers.add(5, rows, torch.zeros(120, 1))
    answers.add_targets(torch.arange(120.0).unsqueeze(1))
    answers.add(9, rows, torch.arange(120.0).unsqueeze(1))
    found = judge(answers.latest(without={0, 1}))
    assert found is not None
    assert (found.rows, answers.step) == (118, 9)
    assert found.relation > 0.999


def test_a_probe_carries_over_only_where_the_relation_is_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 5, generator=generator)
    y = (x[:, 0] > 0).double()
    same = transfer(x[:400], y[:400], x[400:], y[400:], True)
    other = transfer(x[:400], y[:400], x[400:].flip(1), y[400:], True)
    assert same is not None
    assert other is not None
    assert same.score > 0.85
    assert other.score < 0.6


def test_many_classes_of_a_few_rows_each_are_judged_together() -> None:
    classes = torch.arange(60).repeat(3)
    found = judge((_outputs(classes, 60), classes.double().unsqueeze(1)))
    assert found is not None
    assert found.relation > 0.9
    unrelated = judge((_outputs(classes.flip(0), 60), classes.double().unsqueeze(1)))
    assert unrelated is not None
    assert abs(unrelated.relation) < 0.1
