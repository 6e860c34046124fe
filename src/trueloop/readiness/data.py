"""The data: how much, whether splits share samples, how the inputs look to the model, where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trueloop.readiness.question import Run, asked
from trueloop.readiness.record import Absent
from trueloop.results.readiness import Figure, Statement, stated

__all__ = ["classes", "inputs", "leakage", "sizes", "tested", "where"]

AGAIN: Final = "trueloop train {recipe}"
SECTION: Final = "data"
TWINS: Final = 0.01
"""Share of a split that may stand in another by chance: public sets have up to one sample in a hundred that does."""
NORMAL: Final = 10.0
"""A mean or a spread of inputs beyond this is no longer around one, which usual weights are made for. Pixels up to 255
are far beyond."""
LOPSIDED: Final = 10.0
"""The commonest class so many times the rarest: then accuracy says little about the rare ones."""
PAIRS: Final = {
    "train_valid": ("validation", "training"),
    "train_test": ("test", "training"),
    "valid_test": ("test", "validation"),
}
"""Of leakage in facts.json: whose samples were looked for in which."""


@asked(SECTION, "how many samples there are", AGAIN)
def sizes(run: Run) -> Statement:
    train, valid = run.record.figure("facts.json#data.train"), run.record.figure("facts.json#data.valid")
    return stated(SECTION, "note", "{train:,} samples to learn from, {valid:,} to validate", train=train, valid=valid)


@asked(SECTION, "test data", "let the recipe's data return Splits(test=...), then: trueloop train {recipe}")
def tested(run: Run) -> Statement:
    """Without them the best checkpoint is chosen by the very score that is told of it."""
    text = "{test:,} samples to test, which no checkpoint was chosen by"
    return stated(SECTION, "good", text, test=run.record.figure("facts.json#data.test"))


@asked(SECTION, "samples that occur in two splits", AGAIN)
def leakage(run: Run) -> Iterator[Statement]:
    record = run.record
    told = record.figure("facts.json#leakage").value
    if not told:
        raise Absent("facts.json#leakage.train_valid", record.reason("facts.json#leakage") or "there is only one split")
    for pair in told:
        figures = {
            name: record.figure(f"facts.json#leakage.{pair}.{name}") for name in ("repeated", "compared", "against")
        }
        these, those = PAIRS[pair]
        text = (
            f"{{repeated:,}} of {{compared:,}} {these} samples are among {{against:,}} {those} samples, byte for byte"
        )
        share = figures["repeated"].value / max(1, figures["compared"].value)
        sizes = [record.figure(f"facts.json#data.{split}") for split in pair.split("_")]
        if sizes[0].value > figures["against"].value or sizes[1].value > figures["compared"].value:
            figures |= {"first": sizes[1], "second": sizes[0]}
            text += f"; not all were looked at: there are {{first:,}} {these} and {{second:,}} {those} samples"
        command = "" if not share else "draw the splits anew, by groups or without repeated samples"
        yield stated(SECTION, "bad" if share > TWINS else "risk" if share else "good", text, **figures).advising(
            command
        )


@asked(SECTION, "how the inputs look to the model", AGAIN)
def inputs(run: Run) -> Statement:
    record = run.record
    figures = {name: record.figure(f"facts.json#inputs.{name}") for name in ("samples", "values", "not_finite")}
    if figures["not_finite"].value:
        return stated(
            SECTION, "bad", "{not_finite:,} of {values:,} numbers in the first batch are no numbers", **figures
        )
    figures |= {name: record.number(f"facts.json#inputs.{name}") for name in ("mean", "std", "min", "max")}
    if record.value("facts.json#inputs.kind") == "tokens":
        return stated(
            SECTION,
            "note",
            "the first batch, {samples} samples of it: whole numbers from {min:.0f} to {max:.0f}",
            **figures,
        )
    text = "the first batch, {samples} samples of it as the model gets them: mean {mean:.4g}, spread {std:.4g}, from {min:.4g} to {max:.4g}"
    far = max(abs(figures["mean"].value), figures["std"].value) > NORMAL
    command = (
        "subtract the training data's mean and divide by their spread, in the `prepare` of the recipe's Splits"
        if far
        else ""
    )
    return stated(SECTION, "risk" if far else "good", text, **figures).advising(command)


@asked(SECTION, "how many samples each class has", AGAIN)
def classes(run: Run) -> Iterator[Statement]:
    """Only where targets are class numbers."""
    record = run.record
    if not record.has("facts.json#classes"):
        if reason := record.reason("facts.json#classes"):
            raise Absent("facts.json#classes", reason)
        return
    counts = record.figure("facts.json#classes.train")
    most, least = (choose(counts.value, key=counts.value.__getitem__) for choose in (max, min))
    named = {
        "most": Figure(most, f"key_of_largest({counts.source})"),
        "many": Figure(counts.value[most], f"largest({counts.source})"),
        "least": Figure(least, f"key_of_smallest({counts.source})"),
        "few": Figure(counts.value[least], f"smallest({counts.source})"),
    }
    read = record.figure("facts.json#samples.train.read")
    lopsided = counts.value[most] > LOPSIDED * max(1, counts.value[least])
    text = "of {read:,} training samples, class {most} has the most ({many:,}) and class {least} the fewest ({few:,})"
    command = f"trueloop train {run.recipe} --set balanced=True" if lopsided else ""
    yield stated(SECTION, "risk" if lopsided else "good", text, read=read, **named).advising(command)


@asked(SECTION, "where the samples come from", AGAIN)
def where(run: Run) -> Statement:
    record = run.record
    if record.figure("facts.json#data.where").value == "resident":
        size, device = record.number("facts.json#data.bytes") / 1e6, record.figure("facts.json#device.name")
        text = "all training samples are held on {device} ({size:.2f} MB)"
        return stated(SECTION, "note", text, size=size, device=device).and_see("facts.json#data.where")
    workers = record.figure("facts.json#data.workers")
    return stated(SECTION, "note", "samples come from a loader; workers: {workers}", workers=workers).and_see(
        "facts.json#data.where"
    )
