"""What is concluded from the runs without and with a change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from trueloop.report import FORMATS, render
from trueloop.results.experiment import Experiment, FindingSeen, ScriptRun

NAN = math.nan
FOUND = FindingSeen("LOS101", "softmax-before-cross-entropy", "loss = criterion(out, y)")


def side(
    last: Sequence[float | None],
    first: float | None = 0.7,
    metrics: Mapping[str, Sequence[float]] | None = None,
    failure: str = "",
    found: Sequence[FindingSeen] = (),
) -> tuple[ScriptRun, ...]:
    return tuple(
        ScriptRun(
            seed,
            100,
            1.0,
            failure,
            "Traceback" if failure else "",
            first,
            value,
            1.0,
            {name: values[seed] for name, values in (metrics or {}).items()},
            tuple(found),
        )
        for seed, value in enumerate(last)
    )


def experiment(without: tuple[ScriptRun, ...], with_it: tuple[ScriptRun, ...]) -> Experiment:
    return Experiment("train.py", "-a\n+b", ("train.py",), without, with_it)


@pytest.mark.parametrize(
    ("without", "with_it", "conclusion", "sentence"),
    [
        (
            side([0.69, 0.70, 0.69], found=[FOUND]),
            side([0.18, 0.19, 0.18]),
            "helps",
            "the change lowers the last loss from 0.6933 to 0.1833 (3 seeds, noise 0.0058): it is the cause; "
            "LOS101 no longer reported",
        ),
        (
            side([0.69, 0.70, 0.69]),
            side([0.69, 0.71, 0.68]),
            "no difference",
            "no difference beyond noise: last loss 0.6933 without, 0.6933 with the change (3 seeds, noise 0.015)",
        ),
        (
            side([0.1, 0.11, 0.1]),
            side([0.69, 0.70, 0.69]),
            "worse",
            "the change raises the last loss from 0.1033 to 0.6933 (3 seeds, noise 0.0058): it is not the fix",
        ),
        (
            side([0.6]),
            side([0.6]),
            "no difference",
            "the change has no effect: all losses and metrics are bit-identical",
        ),
        (side([0.6]), side([0.61]), "no difference", "no difference of 5 % or more: last loss 0.6 without, 0.61 with"),
        (
            side([0.6]),
            side([0.3]),
            "helps",
            "the change lowers the last loss from 0.6 to 0.3 (1 seed, noise unknown)",
        ),
        (side([NAN, NAN]), side([0.3, 0.3]), "helps", "the change changes the last loss from nan to 0.3 (2 seeds)"),
        (
            side([0.5, 0.6]),
            side([0.3, 0.4]),
            "no difference",
            "no difference beyond noise: last loss 0.55 without, 0.35 with the change (2 seeds, noise 0.071); too few",
        ),
        (
            side([0.6, 0.6, 0.6]),
            side([60.0, 60.0, 60.0], first=70.0),
            "unclear",
            "the change raises the first loss from 0.7 to 70 (3 seeds, noise 0); the loss before the first step "
            "changes too (0.7 to 70), so losses may not be comparable: compare a printed metric",
        ),
        (
            side([0.6, 0.6, 0.6], metrics={"acc": [0.5, 0.51, 0.5]}),
            side([60.0, 60.0, 60.0], first=70.0, metrics={"acc": [0.9, 0.91, 0.9]}),
            "helps",
            "the change raises the printed acc from 0.5033 to 0.9033 (3 seeds, noise 0.0058): it is the cause; ",
        ),
        (
            side([0.6, 0.6, 0.6], metrics={"acc": [0.9, 0.91, 0.9]}),
            side([0.1, 0.1, 0.1], metrics={"acc": [0.5, 0.51, 0.5]}),
            "mixed",
            "the change lowers the last loss from 0.6 to 0.1 (3 seeds, noise 0) and lowers the printed acc from",
        ),
        (
            side([None], failure="RuntimeError: mat1"),
            side([0.3]),
            "helps",
            "the change removes the failure 'RuntimeError: mat1': it is the cause",
        ),
        (side([0.3]), side([None], failure="NameError: x"), "fails", "with the change the script fails: NameError: x"),
        (
            side([None], failure="NameError: x"),
            side([None], failure="NameError: x"),
            "no difference",
            "the script fails with and without the change: NameError: x",
        ),
        (
            side([None], first=None),
            tuple(ScriptRun(0, 1, 1.0, findings=(FOUND,)) for _ in "a"),
            "no difference",
            "nothing to compare: the runs have fewer than 10 losses and share no printed metric; LOS101 newly reported",
        ),
    ],
)
def test_the_verdict(
    without: tuple[ScriptRun, ...], with_it: tuple[ScriptRun, ...], conclusion: str, sentence: str
) -> None:
    result = experiment(without, with_it)
    assert result.sentence().startswith(sentence)
    assert result.conclusion() == conclusion


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_has_the_verdict_and_the_findings(format: str) -> None:
    result = experiment(side([0.69, 0.70, 0.69], found=[FOUND]), side([0.18, 0.19, 0.18], metrics={"acc": [1, 1, 1]}))
    text = render(result, format)
    assert "he change lowers the last loss from 0.6933 to 0.1833" in text
    assert "softmax-before-cross-entropy" in text
    assert "printed acc" not in text, "only numbers of both versions are compared"


def test_a_failure_shows_the_end_of_stderr() -> None:
    assert "Traceback" in render(experiment(side([0.3]), side([None], failure="NameError: x")), "text")
