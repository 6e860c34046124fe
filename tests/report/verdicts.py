"""Verdicts made by hand, ordinary and odd, for the tests of the reports."""

from __future__ import annotations

import math
from pathlib import Path

from trueloop.event import Place
from trueloop.finding import Finding, Severity
from trueloop.results.check import CrashExplanation, NotApplicable, Outcome, Verdict, Watched

__all__ = ["CLEAN", "CRASH", "ODD", "WATCHED", "broken_loop", "ordinary", "with_diffs"]

WATCHED = Watched("train.py", 40, 40, 44, 2, ("Net",), ("SGD",), 27, seconds=1.5)
CLEAN = Verdict(
    (),
    WATCHED,
    (NotApplicable("OPT106", "no schedule was built"), NotApplicable("OPT107", "no schedule was built")),
    Outcome("finished"),
    0.042,
)

CRASH = CrashExplanation(
    kind="layer-shape",
    message="fc takes 8 features and got 4.",
    details=("its input was made in line 2", "fc was built in line 1"),
    fix="Make fc take 4 features.",
    place=Place("/elsewhere/net.py", 3),
)

ODD = Finding(
    code="LOS110",
    name="nan-or-inf",
    severity=Severity.WARNING,
    place=None,
    message="<b>loss</b> is nan, 100% of `x|y`: \x1b[31mred\x1b[0m\nsecond line ::error::",
    why="",
    fix='Say *what* [happened] & "how" __init__ \ud800.',
    evidence={
        "value": math.nan,
        "range": (-math.inf, 1.0),
        "at": Place("/elsewhere/net.py", 3),
        "kinds": {"b", "a"},
        "none": None,
    },
)
"""No place, non-finite numbers, markup of every kind, control characters, a lone surrogate."""


def broken_loop(folder: Path, name: str = "train.py") -> Path:
    script = folder / name
    script.write_text(
        "for x, y in loader:\n    loss = f(model(x), y)\n    loss.backward()\n    optimizer.step()\n", encoding="utf-8"
    )
    return script


def ordinary(script: Path, *, diff: str = "") -> Verdict:
    """One error at line 3 of the script, and one advice."""
    place = Place(str(script), 3)
    error = Finding(
        code="GRD101",
        name="gradients-never-cleared",
        severity=Severity.ERROR,
        place=place,
        message="SGD took step 2 with gradients that still hold those of the step before.",
        why="backward() adds to `.grad`.",
        fix="Reset the gradients once per step.",
        evidence={"optimizer": "SGD", "steps_without_reset": 39, "learning_rate": (0.1,)},
        diff=diff,
        source="    loss.backward()",
        first_step=1,
        count=39,
    )
    advice = Finding(
        "SPD101",
        "slow",
        Severity.ADVICE,
        Place(str(script), 2),
        "It is slow.",
        "Time.",
        "Be fast.",
        source="    loss = f(model(x), y)",
    )
    return Verdict(
        (error, advice),
        WATCHED,
        (NotApplicable("OPT106", "no schedule was built"),),
        Outcome("finished"),
        0.042,
        allowed=1,
    )


def with_diffs(*diffs: str) -> Verdict:
    findings = tuple(
        Finding(f"GRD10{i}", f"wrong-{i}", Severity.ERROR, None, "It is wrong.", "", "Do it right.", diff=diff)
        for i, diff in enumerate(diffs)
    )
    return Verdict(findings, WATCHED, (), Outcome("finished"))
