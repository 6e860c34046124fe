"""The data: sizes, duplicates across splits, the scale of the inputs, where samples come from."""

from collections.abc import Iterator
from typing import Final

from trueloop.readiness.record import Absent
from trueloop.readiness.statements import Run, question
from trueloop.results.readiness import Figure, Statement, stated

__all__ = ["classes", "duplicates", "inputs", "sizes", "tested", "where"]

AGAIN: Final = "trueloop train {recipe}"
SECTION: Final = "data"
DUPLICATES: Final = 0.01  # share of a split that may be in a second split: public datasets have up to that
NORMAL: Final = 10.0  # mean or standard deviation of inputs beyond this is far from one; pixels up to 255 are
IMBALANCED: Final = 10.0  # largest class over smallest: then accuracy says little about the small ones
PAIRS: Final = {
    "train_valid": ("validation", "training"),
    "train_test": ("test", "training"),
    "valid_test": ("test", "validation"),
}  # Leakage in facts.json -> samples of which split were searched in which


@question(SECTION, "number of samples", AGAIN)
def sizes(run: Run) -> Statement:
    train, valid = run.record.figure("facts.json#data.train"), run.record.figure("facts.json#data.valid")
    return stated(SECTION, "note", "{train:,} training and {valid:,} validation samples", train=train, valid=valid)


@question(SECTION, "test data", "return Splits(test=...) from the recipe's data, then: trueloop train {recipe}")
def tested(run: Run) -> Statement:
    """Without them the best checkpoint is chosen by the score that is reported."""
    text = "{test:,} test samples, which did not choose any checkpoint"
    return stated(SECTION, "good", text, test=run.record.figure("facts.json#data.test"))


@question(SECTION, "duplicates across splits", AGAIN)
def duplicates(run: Run) -> Iterator[Statement]:
    record = run.record
    pairs = record.figure("facts.json#leakage").value
    if not pairs:
        raise Absent("facts.json#leakage.train_valid", record.reason("facts.json#leakage") or "there is only one split")
    for pair in pairs:
        names = ("repeated", "compared", "against")
        figures = {name: record.figure(f"facts.json#leakage.{pair}.{name}") for name in names}
        these, those = PAIRS[pair]
        text = f"{{repeated:,}} of {{compared:,}} {these} samples are duplicates of {{against:,}} {those} samples"
        share = figures["repeated"].value / max(1, figures["compared"].value)
        second, first = (record.figure(f"facts.json#data.{split}") for split in pair.split("_"))
        if second.value > figures["against"].value or first.value > figures["compared"].value:
            figures |= {"first": first, "second": second}
            text += f"; not all were compared: there are {{first:,}} {these} and {{second:,}} {those} samples"
        status = stated(SECTION, "bad" if share > DUPLICATES else "risk" if share else "good", text, **figures)
        yield status.advising("split again, by groups or without duplicates" if share else "")


@question(SECTION, "scale of the inputs", AGAIN)
def inputs(run: Run) -> Statement:
    record = run.record
    figures = {name: record.figure(f"facts.json#inputs.{name}") for name in ("samples", "values", "not_finite")}
    if figures["not_finite"].value:
        text = "{not_finite:,} of {values:,} values in the first batch are NaN or Inf"
        return stated(SECTION, "bad", text, **figures)
    figures |= {name: record.number(f"facts.json#inputs.{name}") for name in ("mean", "std", "min", "max")}
    first = "the first batch ({samples} samples)"
    if record.value("facts.json#inputs.kind") == "tokens":
        return stated(SECTION, "note", f"{first}: integers from {{min:.0f}} to {{max:.0f}}", **figures)
    text = f"{first} as the model gets it: mean {{mean:.4g}}, standard deviation {{std:.4g}}, "
    far = max(abs(figures["mean"].value), figures["std"].value) > NORMAL
    command = "normalize in `prepare` of the recipe's Splits: subtract the mean, divide by the standard deviation"
    made = stated(SECTION, "risk" if far else "good", text + "from {min:.4g} to {max:.4g}", **figures)
    return made.advising(command if far else "")


@question(SECTION, "samples per class", AGAIN)
def classes(run: Run) -> Iterator[Statement]:
    """Only where targets are classes."""
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
    imbalanced = counts.value[most] > IMBALANCED * max(1, counts.value[least])
    text = "of {read:,} training samples, class {most} has the most ({many:,}) and class {least} the fewest ({few:,})"
    command = f"trueloop train {run.recipe} --set balanced=True" if imbalanced else ""
    yield stated(SECTION, "risk" if imbalanced else "good", text, read=read, **named).advising(command)


@question(SECTION, "where the samples come from", AGAIN)
def where(run: Run) -> Statement:
    record = run.record
    if record.figure("facts.json#data.where").value == "resident":
        size, device = record.number("facts.json#data.bytes") / 1e6, record.figure("facts.json#device.name")
        made = stated(SECTION, "note", "all training samples are on {device} ({size:.2f} MB)", size=size, device=device)
    else:
        workers = record.figure("facts.json#data.workers")
        made = stated(SECTION, "note", "samples come from a loader; workers: {workers}", workers=workers)
    return made.and_see("facts.json#data.where")
