"""`trueloop evaluate RUN`: the metrics of a run's best weights, with intervals, beside the values that it logged."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from trueloop.cli.deliver import Delivery
from trueloop.cli.loaded_run import add_run_options, load_run
from trueloop.cli.options import Parser, one_of
from trueloop.cli.runs import table
from trueloop.report.units import number
from trueloop.results.check import ExitCode
from trueloop.results.document import Column, Document, Table
from trueloop.results.plain import as_plain

if TYPE_CHECKING:
    from trueloop.inference.evaluation import Evaluation, Measured

__all__ = ["evaluate", "parser"]

ABOUT: Final = """Measure the best weights of a run (their moving average, if the recipe has one) on its data, and
compare with what the run logged for them.

Metrics that are computed from sums over samples get a 95% interval by a bootstrap over the samples: loss, accuracy, f1,
mae and r2, and metrics of your own that return one value per sample. Others get none.

The exit code is 1 if a value differs from the logged one by more than rounding."""
HEADS: Final = ["metric", "value", "95% interval", "logged", ""]


def parser() -> Parser:
    made = Parser("evaluate", "RUN [options]", ABOUT)
    add_run_options(made)
    splits = ("test", "valid", "train")
    made.add_argument("--split", metavar="NAME", type=one_of(splits), help="test (default) | valid | train")
    made.add_report_options(quiet="")
    return made


def evaluate(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    delivery = Delivery(options)
    loaded = load_run(options, "evaluate")
    from trueloop.inference.evaluation import evaluate_run

    result = evaluate_run(loaded, options.split or "")
    cells, notes = [HEADS, *map(_row, result.metrics)], _notes(result)
    writers = {
        "text": lambda: "\n".join([_title(result), "", *table(cells), "", *notes]),
        "json": lambda: json.dumps(as_plain(result), indent=2),
    }
    columns = (Column("metric"), *(Column(head, "number") for head in HEADS[1:4]), Column("agreement"))
    part = Table("", columns, tuple(tuple(row) for row in cells[1:]))
    delivery.deliver_text(writers, lambda: Document(_title(result), (part,), tuple(notes)))
    differing = _differing(result)
    if differing and not delivery.in_terminal:
        print(f"trueloop: {differing}", file=sys.stderr)  # a report that a program reads has no place for it
    return ExitCode.FINDINGS if differing else ExitCode.CLEAN


def _title(result: Evaluation) -> str:
    weights = "moving average of the weights" if result.weights == "ema" else "weights"
    where = f"on the {result.split} split" if result.split else "in the recipe's own evaluation"
    samples = f" ({result.samples:,} samples)" if result.samples is not None else ""
    return f"{result.run}: {weights} of step {result.step:,} {where}{samples}, {result.device}"


def _row(each: Measured) -> list[str]:
    interval = "none" if each.interval is None else " to ".join(map(number, each.interval))
    logged = "" if each.logged is None else number(each.logged)
    return [each.name, number(each.value), interval, logged, _agreement(each)]


def _agreement(each: Measured) -> str:
    if each.difference is None:
        return "not logged"
    return "identical" if each.difference == 0 else f"differs by {each.difference:+.2g}"


def _notes(result: Evaluation) -> list[str]:
    from trueloop.inference.intervals import RESAMPLES

    notes = []
    with_intervals = [each.name for each in result.metrics if each.interval is not None]
    if with_intervals:
        drawn = f"a bootstrap over samples ({RESAMPLES:,} resamples)"
        notes.append(f"Intervals of {', '.join(with_intervals)}: {drawn}; they do not cover different seeds.")
    without = [each.name for each in result.metrics if each.interval is None]
    if without:
        notes.append(f"No interval for {', '.join(without)}: not computed from sums over independent samples.")
    compared = [each for each in result.metrics if each.logged is not None]
    if not compared:
        notes.append("The run logged no values for these weights on this split.")
    elif differing := _differing(result):
        notes.append(differing)
    else:
        exact = all(each.difference == 0 for each in compared)
        notes.append(f"They agree with the values that the run logged{'' if exact else ', up to rounding'}.")
    return notes


def _differing(result: Evaluation) -> str:
    """Values that differ from the logged ones by more than rounding; empty: none."""
    apart = [each for each in result.metrics if each.logged is not None and not each.agrees]
    if not apart:
        return ""
    values = ", ".join(f"{each.name} {number(each.value)} instead of {number(each.logged or 0.0)}" for each in apart)
    causes = "its data, its code, the torch version or the device may have changed since"
    return f"{result.run} does not give the values that it logged: {values}; {causes}."
