"""What would become a problem with ten times the data."""

from typing import Final

from trueloop.readiness.statements import Run, question
from trueloop.results.readiness import Figure, Statement, middle_of, stated

__all__ = ["lost", "room", "seeds", "spikes", "time"]

SECTION: Final = "larger data"
GROWTH: Final = 10  # times the data
ROOM: Final = 0.4  # of the device's memory for resident data: the engine's limit; the rest is for the model
LONG: Final = 1800.0  # seconds of work that a kill may lose
SPIKE: Final = 20.0  # largest gradient norm over the median: one such step can undo hundreds of others
ENOUGH_ROWS: Final = 5  # for a median of norms
AGAIN: Final = "trueloop train {recipe}"
ROWS: Final = "trueloop train {recipe} --set log_every=10"
TIMES: Final = Figure(GROWTH, str(GROWTH))


@question(SECTION, "memory for more data", AGAIN)
def room(run: Run) -> Statement:
    record = run.record
    if record.figure("facts.json#data.where").value != "resident":
        made = stated(SECTION, "good", "samples are read as needed: more of them need no more memory")
        return made.and_see("facts.json#data.where")
    size, total = record.number("facts.json#data.bytes"), record.number("facts.json#device.memory")
    figures = {"size": size * GROWTH / 1e6, "total": total / 1e6, "times": TIMES, "share": Figure(ROOM, str(ROOM))}
    text = "{times} times the training data would be {size:,.1f} MB in memory, of {total:,.0f} MB"
    if size.value * GROWTH > ROOM * total.value:
        made = stated(SECTION, "risk", text + "; more than {share:.0%} leaves too little", **figures)
        return made.advising(f"trueloop train {run.recipe} --set where=loader")
    return stated(SECTION, "good", text, **figures)


def _epoch(run: Run) -> Figure:
    """Seconds of training for one epoch, at the run's speed."""
    rate = middle_of(run.record.figure("metrics.jsonl?train#samples_per_second"))
    return run.record.number("facts.json#data.train") / rate


@question(SECTION, "time per epoch", ROWS)
def time(run: Run) -> Statement:
    epoch = _epoch(run)
    text = "an epoch takes about {epoch:.1f} s at this speed, and {longer:,.1f} s with {times} times the data"
    return stated(SECTION, "note", text, epoch=epoch, longer=epoch * GROWTH, times=TIMES)


@question(SECTION, "work lost by a kill", ROWS)
def lost(run: Run) -> Statement:
    """The time between two checkpoints."""
    record, epoch = run.record, _epoch(run)
    names = ("save_every", "evaluate_every")
    name = next((name for name in names if record.value(f"run.json#recipe.{name}")), None)
    if name is None:
        figures = {"work": epoch * GROWTH, "times": TIMES}
        text = "one checkpoint per epoch: with {times} times the data a kill would lose up to {work:,.1f} s of work"
    else:
        steps = record.figure(f"run.json#recipe.{name}")
        figures = {"work": epoch / record.number("facts.json#data.steps_per_epoch") * steps, "steps": steps}
        text = (
            "a checkpoint every {steps:,} steps: a kill would lose up to {work:,.1f} s of work, with any amount of data"
        )
    risky = figures["work"].value > LONG
    made = stated(SECTION, "risk" if risky else "good", text, **figures)
    command = f"trueloop train {run.recipe} --set save_every=1000" if risky else ""
    return made.and_see(*(["run.json#recipe"] if name is None else [])).advising(command)


@question(SECTION, "gradient spikes", ROWS)
def spikes(run: Run) -> Statement:
    record = run.record
    norms = record.figure("metrics.jsonl?train#gradient_norm")
    values = [float(each) for each in norms.value]
    if record.has("run.json#recipe.clip"):
        clip = record.figure("run.json#recipe.clip")
        return stated(SECTION, "good", "gradients are clipped at a norm of {clip:.4g}", clip=clip)
    count = Figure(len(values), f"count({norms.source})")
    if len(values) < ENOUGH_ROWS:
        text = "gradients are not clipped, and {count} rows are too few to see spikes"
        return stated(SECTION, "missing", text, count=count).advising(ROWS.format(recipe=run.recipe))
    middle, most = middle_of(Figure(values, norms.source)), Figure(max(values), f"largest({norms.source})")
    text = "gradients are not clipped: their norm has median {middle:.3g} and maximum {most:.3g}, over {count} rows"
    risky = not most.value <= SPIKE * middle.value
    command = f"trueloop train {run.recipe} --set clip=1.0" if risky else ""
    made = stated(SECTION, "risk" if risky else "good", text, middle=middle, most=most, count=count)
    return made.advising(command)


@question(SECTION, "effect of the seed", "trueloop train {recipe} --set seed=1")
def seeds(run: Run) -> Statement:
    """Known from a second run of the recipe with a different seed."""
    record, other = run.record, run.twin
    seed = record.figure("run.json#recipe.seed")
    if other is None:
        text = "only seed {seed} was trained: the effect of the seed is unknown"
        command = f"trueloop train {run.recipe} --set seed={int(seed.value) + 1}"
        return stated(SECTION, "risk", text, seed=seed).advising(command)
    figures = {"mine": record.number("run.json#best"), "theirs": other.number("run.json#best")}
    figures |= {"other": other.figure("run.json#name"), "second": other.figure("run.json#recipe.seed")}
    text = "with seed {seed} the best is {mine:.4g}, with seed {second} {theirs:.4g} ({other})"
    return stated(SECTION, "good", text, seed=seed, **figures)
