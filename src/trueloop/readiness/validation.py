"""Is the model validated as it should be, and is what it reached worth anything?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trueloop.readiness.question import Run, asked
from trueloop.readiness.record import Absent, Record
from trueloop.results.readiness import Figure, Statement, Status, stated

__all__ = ["against_before", "against_constant", "collapsed", "mode", "reached", "repeats", "test"]

AGAIN: Final = "trueloop train {recipe}"
SECTION: Final = "validation"
ERRORS: Final = 2.0
"""Standard errors that a difference must exceed: one in twenty lies beyond by chance."""


@asked(
    SECTION,
    "a validation",
    "let the recipe's data return Splits(valid=...), then: trueloop train {recipe}",
    essential=True,
)
def reached(run: Run) -> Statement:
    record = run.record
    metric, best, step = best_of(record)
    row = next(
        (
            line
            for line in record.lines("metrics.jsonl", "valid")
            if record.value(f"metrics.jsonl:{line}#step") == step.value
        ),
        None,
    )
    seen = [f"metrics.jsonl:{row}#{metric.value}"] if row is not None else []
    times = record.count("metrics.jsonl?valid#step")
    text = "the best {metric} is {best:.4g}, at step {step:,}; evaluations: {times}"
    return stated(SECTION, "note", text, metric=metric, best=best, step=step, times=times).and_see(*seen)


@asked(SECTION, "the mode that it is validated in", AGAIN)
def mode(run: Run) -> Statement:
    record = run.record
    modules, training = (
        record.figure("facts.json#validation.modules"),
        record.figure("facts.json#validation.in_train_mode"),
    )
    graphs = record.figure("facts.json#validation.graphs")
    if training.value or graphs.value:
        text = "while it is validated {training} of {modules} modules are in train mode; graphs are built: {graphs}"
        return stated(SECTION, "bad", text, training=training, modules=modules, graphs=graphs)
    text = "while it is validated all {modules} modules are in eval mode, and no graph is built"
    return stated(SECTION, "good", text, modules=modules).and_see(*training.addresses, *graphs.addresses)


@asked(SECTION, "whether a validation repeats", "trueloop probe {run} evaluation-repeats")
def repeats(run: Run) -> Statement:
    return proved(
        run,
        SECTION,
        "evaluation-repeats",
        "the validation gives the same numbers again",
        "the validation does not repeat",
    )


@asked(SECTION, "what a constant answer reaches", AGAIN)
def against_constant(run: Run) -> Statement:
    """A model that is no better than one that looks at nothing has learned nothing."""
    record = run.record
    metric, best, _ = best_of(record)
    if record.figure("facts.json#baseline.metric").value != metric.value:
        raise Absent(f"facts.json#baseline.{metric.value}")
    value, answer = record.number("facts.json#baseline.value"), record.figure("facts.json#baseline.answer")
    figures = {
        "best": best,
        "metric": metric,
        "value": value,
        "answer": answer,
        "samples": record.figure("facts.json#baseline.valid"),
    }
    text = "{metric} {best:.4g} against {value:.4g} of a constant answer ({answer}; {samples:,} samples)"
    lead = _lead(record, best, value)
    if lead <= 0:
        return stated(SECTION, "bad", f"{text}: the model is no better than one that looks at nothing", **figures)
    noise = _error(metric, value, figures["samples"])
    if noise is not None and lead <= noise.value:
        return stated(
            SECTION, "risk", f"{text}: no more than {{noise:.2g}}, which chance gives", noise=noise, **figures
        )
    return stated(SECTION, "good", text, **figures)


@asked(
    SECTION, "the last good run", "trueloop ready {run} --baseline OTHER, or: trueloop train {recipe} --baseline {run}"
)
def against_before(run: Run) -> Statement:
    record = run.record
    metric, best, _ = best_of(record)
    value, name, noise, where = _before(run, metric)
    figures = {"metric": metric, "best": best, "value": value, "name": name}
    text = "{metric} {best:.4g} against {value:.4g} of the last good run, {name}"
    worse = -_lead(record, best, value)
    if noise is not None:
        figures["noise"] = noise
        text += "; equally good runs lie up to {noise:.2g} apart"
    status: Status = "good" if worse <= (0 if noise is None else noise.value) else "risk" if noise is None else "bad"
    return stated(SECTION, status, text, **figures).advising(
        f"trueloop compare {where} {run.name}" if worse > 0 else ""
    )


@asked(SECTION, "whether it collapsed", AGAIN)
def collapsed(run: Run) -> Iterator[Statement]:
    """Only of a run that was held against a baseline while it trained."""
    record = run.record
    if record.has("run.json#collapse.sentence") and not record.has("run.json#collapse.recovered_at"):
        yield stated(SECTION, "bad", "it collapsed: {sentence}", sentence=record.figure("run.json#collapse.sentence"))


@asked(SECTION, "a test of the best weights", AGAIN)
def test(run: Run) -> Statement:
    record = run.record
    if not record.has("facts.json#data.test") and record.has("facts.json#data"):
        raise Absent("facts.json#data.test", "there are no test data")
    metric, best, _ = best_of(record)
    line = (record.lines("metrics.jsonl", "test") or [0])[-1]
    value = record.number(f"metrics.jsonl:{line}#{metric.value}")
    text = "on the test data the best weights reach {metric} {value:.4g}; {best:.4g} on those they were chosen by"
    return stated(SECTION, "note", text, metric=metric, value=value, best=best)


# -- what they share --


def best_of(record: Record) -> tuple[Figure, Figure, Figure]:
    """Metric, best value and its step."""
    return record.figure("run.json#metric"), record.number("run.json#best"), record.figure("run.json#best_step")


def proved(run: Run, section: str, claim: str, holds: str, fails: str) -> Statement:
    """A claim in the words of a section; Absent where it was not tried."""
    result, measured = (run.record.figure(f"proofs.json#{claim}.{part}") for part in ("result", "measured"))
    if result.value == "unproved":
        text = f"{claim}: could not be tested here; {{measured}}"
        return stated(section, "missing", text, measured=measured).advising(run.command(run.probe, claim=claim))
    good = result.value == "holds"
    text = f"{holds if good else fails}: {{measured}}"
    return stated(section, "good" if good else "bad", text, measured=measured).and_see(*result.addresses)


def _before(run: Run, metric: Figure) -> tuple[Figure, Figure, Figure | None, str]:
    """The value of the last good run, its name, how far apart equally good runs lie, and what to type for it. The run's
    own baseline comes first: its noise is known."""
    record, other = run.record, run.before
    kept = record.value("run.json#baseline.run")
    if record.value("run.json#baseline.metric") == metric.value and (
        other is None or other.folder.absolute() == Path(kept)
    ):
        name = Figure(Path(kept).name, "last_of([run.json#baseline.run])")
        return record.number("run.json#baseline.value"), name, record.number("run.json#baseline.noise"), kept
    if other is None:
        raise Absent("run.json#baseline", "no other finished run of this recipe lies beside it")
    theirs_by, theirs, _ = best_of(other)
    if theirs_by.value != metric.value:
        raise Absent("run.json#baseline", f"{other.name} was chosen by {theirs_by.value}, not by {metric.value}")
    noise = (
        _error(metric, theirs, record.figure("facts.json#data.valid")) if record.has("facts.json#data.valid") else None
    )
    return theirs, other.figure("run.json#name"), noise, other.name


def _lead(record: Record, value: Figure, other: Figure) -> float:
    """By how much the first is better."""
    lead = float(value.value) - float(other.value)
    return lead if record.figure("run.json#higher_is_better").value else -lead


def _error(metric: Figure, value: Figure, samples: Figure) -> Figure | None:
    """Two standard errors of an accuracy; of other metrics nothing is known without their samples. Two more right and
    two more wrong ones are counted: without them an accuracy of 1 would have no error at all."""
    if metric.value != "accuracy":
        return None
    share = (value * samples + 2) / (samples + 4)
    square = share * (Figure(1, "1") - share) / (samples + 4)
    return Figure(ERRORS * math.sqrt(square.value), f"{ERRORS} * sqrt({square.source})")
