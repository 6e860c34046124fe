"""Is the model validated correctly, and is its result better than trivial?"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trueloop.readiness.record import Absent, Record
from trueloop.readiness.statements import Run, claim_question, question
from trueloop.results.readiness import Figure, Statement, Status, stated

__all__ = ["against_before", "against_constant", "collapsed", "mode", "reached", "repeats", "test"]

AGAIN: Final = "trueloop train {recipe}"
WITH_VALID: Final = "return Splits(valid=...) from the recipe's data, then: trueloop train {recipe}"
WITH_BASELINE: Final = "trueloop ready {run} --baseline OTHER, or: trueloop train {recipe} --baseline {run}"
SECTION: Final = "validation"
ERRORS: Final = 2.0  # standard errors that a difference must exceed: one in twenty does by chance


@question(SECTION, "a validation", WITH_VALID, essential=True)
def reached(run: Run) -> Statement:
    record = run.record
    metric, best, step = _best(record)
    lines = record.lines("metrics.jsonl", "valid")
    rows = [line for line in lines if record.value(f"metrics.jsonl:{line}#step") == step.value]
    times = record.count("metrics.jsonl?valid#step")
    text = "the best {metric} is {best:.4g}, at step {step:,}; evaluations: {times}"
    made = stated(SECTION, "note", text, metric=metric, best=best, step=step, times=times)
    return made.and_see(*(f"metrics.jsonl:{row}#{metric.value}" for row in rows[:1]))


@question(SECTION, "mode during validation", AGAIN)
def mode(run: Run) -> Statement:
    names = ("modules", "in_train_mode", "graphs")
    modules, training, graphs = (run.record.figure(f"facts.json#validation.{name}") for name in names)
    if training.value or graphs.value:
        text = "during validation {training} of {modules} modules are in train mode; graphs are recorded: {graphs}"
        return stated(SECTION, "bad", text, training=training, modules=modules, graphs=graphs)
    text = "during validation all {modules} modules are in eval mode, and no graph is recorded"
    return stated(SECTION, "good", text, modules=modules).and_see(*training.addresses, *graphs.addresses)


repeats = claim_question(
    SECTION,
    "repeated validation",
    "evaluation-repeats",
    "a second validation gives the same results",
    "a second validation gives different results",
)


@question(SECTION, "a constant prediction", AGAIN)
def against_constant(run: Run) -> Statement:
    """A model that is not better has learned nothing."""
    record = run.record
    metric, best, _ = _best(record)
    if record.figure("facts.json#baseline.metric").value != metric.value:
        raise Absent(f"facts.json#baseline.{metric.value}")
    value, samples = record.number("facts.json#baseline.value"), record.figure("facts.json#baseline.valid")
    figures = {"best": best, "metric": metric, "value": value, "samples": samples}
    figures |= {"answer": record.figure("facts.json#baseline.answer")}
    text = "{metric} {best:.4g}, and {value:.4g} of a constant prediction ({answer}; {samples:,} samples)"
    lead = _lead(record, best, value)
    if lead <= 0:
        return stated(SECTION, "bad", f"{text}: the model is not better than a constant", **figures)
    noise = _standard_error(metric, value, samples)
    if noise is not None and lead <= noise.value:
        text += ": the difference is at most {noise:.2g}, which may be chance"
        return stated(SECTION, "risk", text, noise=noise, **figures)
    return stated(SECTION, "good", text, **figures)


@question(SECTION, "the last good run", WITH_BASELINE)
def against_before(run: Run) -> Statement:
    record = run.record
    metric, best, _ = _best(record)
    value, name, noise, where = _before(run, metric)
    figures = {"metric": metric, "best": best, "value": value, "name": name}
    text = "{metric} {best:.4g}, and {value:.4g} of the last good run, {name}"
    worse = -_lead(record, best, value)
    if noise is not None:
        figures["noise"] = noise
        text += "; equally good runs differ by up to {noise:.2g}"
    status: Status = "good" if worse <= (0 if noise is None else noise.value) else "risk" if noise is None else "bad"
    command = f"trueloop compare {where} {run.name}" if worse > 0 else ""
    return stated(SECTION, status, text, **figures).advising(command)


@question(SECTION, "a collapse", AGAIN)
def collapsed(run: Run) -> Iterator[Statement]:
    """Only of a run with a baseline."""
    record = run.record
    if record.has("run.json#collapse.sentence") and not record.has("run.json#collapse.recovered_at"):
        yield stated(SECTION, "bad", "it collapsed: {sentence}", sentence=record.figure("run.json#collapse.sentence"))


@question(SECTION, "a test of the best weights", AGAIN)
def test(run: Run) -> Statement:
    record = run.record
    if not record.has("facts.json#data.test") and record.has("facts.json#data"):
        raise Absent("facts.json#data.test", "there are no test data")
    metric, best, _ = _best(record)
    line = (record.lines("metrics.jsonl", "test") or [0])[-1]
    value = record.number(f"metrics.jsonl:{line}#{metric.value}")
    text = "the best weights reach {metric} {value:.4g} on the test data, and {best:.4g} on the validation data"
    return stated(SECTION, "note", text, metric=metric, value=value, best=best)


# -- shared --


def _best(record: Record) -> tuple[Figure, Figure, Figure]:
    """Metric, best value and its step."""
    return record.figure("run.json#metric"), record.number("run.json#best"), record.figure("run.json#best_step")


def _before(run: Run, metric: Figure) -> tuple[Figure, Figure, Figure | None, str]:
    """The value of the last good run, its name, how far equally good runs differ, and what to type for it. The run's
    own baseline comes first: its noise is known."""
    record, other = run.record, run.before
    kept = record.value("run.json#baseline.run")
    same_metric = record.value("run.json#baseline.metric") == metric.value
    if same_metric and (other is None or other.folder.absolute() == Path(kept)):
        name = Figure(Path(kept).name, "last_of([run.json#baseline.run])")
        return record.number("run.json#baseline.value"), name, record.number("run.json#baseline.noise"), kept
    if other is None:
        raise Absent("run.json#baseline", "there is no other finished run of this recipe in its folder")
    their_metric, theirs, _ = _best(other)
    if their_metric.value != metric.value:
        raise Absent("run.json#baseline", f"{other.name} was selected by {their_metric.value}, not by {metric.value}")
    samples = record.figure("facts.json#data.valid") if record.has("facts.json#data.valid") else None
    noise = None if samples is None else _standard_error(metric, theirs, samples)
    return theirs, other.figure("run.json#name"), noise, other.name


def _lead(record: Record, value: Figure, other: Figure) -> float:
    """By how much the first is better."""
    lead = float(value.value) - float(other.value)
    return lead if record.figure("run.json#higher_is_better").value else -lead


def _standard_error(metric: Figure, value: Figure, samples: Figure) -> Figure | None:
    """Two standard errors of an accuracy; unknown for other metrics. Two correct and two wrong samples are added:
    otherwise an accuracy of 1 would have no error at all."""
    if metric.value != "accuracy":
        return None
    share = (value * samples + 2) / (samples + 4)
    square = share * (Figure(1, "1") - share) / (samples + 4)
    return Figure(ERRORS * math.sqrt(square.value), f"{ERRORS} * sqrt({square.source})")
