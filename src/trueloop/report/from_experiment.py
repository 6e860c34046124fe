"""The result of `try` as a document: the verdict, a table of numbers, findings that come and go, and the change."""

from collections.abc import Iterator
from typing import Final

from trueloop.results.check import counted
from trueloop.results.document import Code, Document, Item, Items, Part, Table, Tone, columns
from trueloop.results.experiment import Conclusion, Experiment, Quantity

__all__ = ["document"]

TONE: Final[dict[Conclusion, Tone]] = {
    "helps": "good",
    "no difference": "advice",
    "unclear": "advice",
    "mixed": "warning",
    "worse": "warning",
    "fails": "error",
}
COLUMNS: Final = columns("number", "without", "with", "difference", "noise", "")


def document(experiment: Experiment) -> Document:
    sentence = experiment.sentence()
    files, steps = ", ".join(experiment.files), max(run.steps for run in (*experiment.without, *experiment.with_it))
    runs = counted(len(experiment.without), "run")
    return Document(
        title=sentence[:1].upper() + sentence[1:],
        parts=tuple(_parts(experiment)),
        notes=experiment.notes,
        subtitle=f"`{experiment.script}`, {runs} without and {runs} with the change of {files}; up to {steps:,} steps",
        tone=TONE[experiment.conclusion()],
        name=f"trueloop try: {experiment.conclusion()}",
    )


def _parts(experiment: Experiment) -> Iterator[Part]:
    quantities = experiment.quantities()
    if quantities:
        note = "Noise is the standard deviation over the seeds, of the noisier version."
        rows = tuple(map(_row, quantities))
        yield Table("Numbers", COLUMNS, rows, note=note if len(experiment.without) > 1 else "")
    runs = len(experiment.without)
    changes = (("removed", "good", experiment.removed()), ("new", "warning", experiment.added()))
    items = tuple(
        Item(label, f"{each.code} {each.name}" + (f", in {count} of {runs} runs" if count < runs else ""), _tone(label))
        for label, _, found in changes
        for each, count in found.items()
    )
    if items:
        yield Items("Findings", items)
    for label, side in (("without", experiment.without), ("with", experiment.with_it)):
        log = next((run.log for run in side if run.failure), "")
        if log:
            yield Code(log, title=f"The end of stderr {label} the change")
    yield Code(experiment.change, "diff", "The change", show="page")


def _tone(label: str) -> Tone:
    return "good" if label == "removed" else "warning"


def _row(quantity: Quantity) -> tuple[str, ...]:
    before, after = quantity.means
    noise = "unknown" if quantity.noise is None else f"{quantity.noise:.2g}"
    word = {1: "better", -1: "worse"}.get(quantity.gain, "different" if quantity.moved else "no difference")
    return quantity.name, f"{before:.4g}", f"{after:.4g}", f"{after - before:+.3g}", noise, word
