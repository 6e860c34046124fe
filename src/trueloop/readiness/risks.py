"""What would hurt if there were ten times the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trueloop.readiness.question import Run, asked
from trueloop.results.readiness import Figure, Statement, middle_of, stated

__all__ = ["lost", "room", "seeds", "spikes", "time"]

SECTION: Final = "larger data"
GROWTH: Final = 10
"""How many times the data are thought of: the usual next order."""
ROOM: Final = 0.4
"""Of the device's memory that resident data may take: the engine's own limit; the rest is the model's and its
activations'."""
LONG: Final = 1800.0
"""Seconds of work that may be lost to a kill before it hurts: half an hour."""
SPIKE: Final = 20.0
"""The largest norm of a gradient, so many times the median: one such step can undo hundreds of others."""
ENOUGH_ROWS: Final = 5
"""Rows that a median of norms is taken over."""
AGAIN: Final = "trueloop train {recipe}"
ROWS: Final = "trueloop train {recipe} --set log_every=10"


@asked(SECTION, "room for more data", AGAIN)
def room(run: Run) -> Statement:
    record = run.record
    if record.figure("facts.json#data.where").value != "resident":
        return stated(SECTION, "good", "samples are read as needed: more of them need no more memory").and_see(
            "facts.json#data.where"
        )
    size, there = record.number("facts.json#data.bytes"), record.number("facts.json#device.memory")
    figures = {
        "size": size * GROWTH / 1e6,
        "there": there / 1e6,
        "times": Figure(GROWTH, str(GROWTH)),
        "share": Figure(ROOM, str(ROOM)),
    }
    text = "{times} times the training data would be {size:,.1f} MB in memory, of {there:,.0f} MB"
    if size.value * GROWTH > ROOM * there.value:
        return stated(SECTION, "risk", text + "; more than {share:.0%} leaves too little", **figures).advising(
            f"trueloop train {run.recipe} --set where=loader"
        )
    return stated(SECTION, "good", text, **figures)


def _epoch(run: Run) -> Figure:
    """Seconds of training for one epoch, at the run's own pace."""
    rate = middle_of(run.record.figure("metrics.jsonl?train#samples_per_second"))
    return run.record.number("facts.json#data.train") / rate


@asked(SECTION, "how long an epoch would take", ROWS)
def time(run: Run) -> Statement:
    epoch, times = _epoch(run), Figure(GROWTH, str(GROWTH))
    text = "an epoch takes about {epoch:.1f} s at this pace, and {times} times the data {longer:,.1f} s"
    return stated(SECTION, "note", text, epoch=epoch, times=times, longer=epoch * GROWTH)


@asked(SECTION, "how much work a kill would lose", ROWS)
def lost(run: Run) -> Statement:
    """What lies between two checkpoints."""
    record = run.record
    epoch, every = (
        _epoch(run),
        record.value("run.json#recipe.save_every") or record.value("run.json#recipe.evaluate_every"),
    )
    if every is None:
        work, times = epoch * GROWTH, Figure(GROWTH, str(GROWTH))
        text = (
            "a checkpoint follows each epoch: with {times} times the data a kill would lose up to {work:,.1f} s of work"
        )
        figures = {"work": work, "times": times}
        also = ["run.json#recipe"]
    else:
        name = "save_every" if record.has("run.json#recipe.save_every") else "evaluate_every"
        steps = record.figure(f"run.json#recipe.{name}")
        work = epoch / record.number("facts.json#data.steps_per_epoch") * steps
        text, also = (
            "a checkpoint every {steps:,} steps: a kill would lose up to {work:,.1f} s of work, however large the data",
            [],
        )
        figures = {"work": work, "steps": steps}
    risky = work.value > LONG
    command = f"trueloop train {run.recipe} --set save_every=1000" if risky else ""
    return stated(SECTION, "risk" if risky else "good", text, **figures).and_see(*also).advising(command)


@asked(SECTION, "how far gradients leap", ROWS)
def spikes(run: Run) -> Iterator[Statement]:
    record = run.record
    norms = record.figure("metrics.jsonl?train#gradient_norm")
    numbers = [float(each) for each in norms.value]
    if record.has("run.json#recipe.clip"):
        clip = record.figure("run.json#recipe.clip")
        yield stated(SECTION, "good", "gradients are clipped at a norm of {clip:.4g}", clip=clip)
        return
    count = Figure(len(numbers), f"count({norms.source})")
    if len(numbers) < ENOUGH_ROWS:
        text = "gradients are not clipped, and {count} rows are too few to say how far they leap"
        yield stated(SECTION, "missing", text, count=count).advising(ROWS.format(recipe=run.recipe))
        return
    middle, most = middle_of(Figure(numbers, norms.source)), Figure(max(numbers), f"largest({norms.source})")
    text = (
        "gradients are not clipped: their norm is {middle:.3g} in the middle and {most:.3g} at most, over {count} rows"
    )
    risky = not most.value <= SPIKE * middle.value
    command = f"trueloop train {run.recipe} --set clip=1.0" if risky else ""
    yield stated(SECTION, "risk" if risky else "good", text, middle=middle, most=most, count=count).advising(command)


@asked(SECTION, "how much the seed matters", "trueloop train {recipe} --set seed=1")
def seeds(run: Run) -> Statement:
    """Known from another run of the recipe that differs in its seed."""
    record, other = run.record, run.twin
    seed = record.figure("run.json#recipe.seed")
    if other is not None:
        figures = {
            "mine": record.number("run.json#best"),
            "theirs": other.number("run.json#best"),
            "other": other.figure("run.json#name"),
        }
        text = "with seed {seed} the best is {mine:.4g}, with seed {another} {theirs:.4g} ({other})"
        return stated(SECTION, "good", text, seed=seed, another=other.figure("run.json#recipe.seed"), **figures)
    command = f"trueloop train {run.recipe} --set seed={int(seed.value) + 1}"
    return stated(
        SECTION, "risk", "only seed {seed} was trained: how much of the result is luck is not known", seed=seed
    ).advising(command)
