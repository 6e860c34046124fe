"""The model of a run, for the verbs that use it."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from trueloop.cli.options import Parser
from trueloop.errors import Misuse
from trueloop.export.device import parse_device, torch_device

if TYPE_CHECKING:
    from trueloop.inference.load import Loaded

__all__ = ["add_run_options", "load_run"]


def add_run_options(parser: Parser) -> None:
    add = parser.add_argument
    add("run", nargs="?", metavar="RUN", help="a run's folder, or its name in runs/")
    add("--checkpoint", metavar="WHICH", default="best", help="best (default) | last | a step")
    add("--data", type=Path, metavar="DIR", help="the folder with its data, if it has moved")
    add("--device", type=parse_device, help="cpu | cuda | cuda:N (default: the best one)")
    add("--runs", metavar="FOLDER", type=Path, default=Path("runs"), help="the folder of runs")
    parser.add_trust()


def load_run(options: argparse.Namespace, verb: str) -> Loaded:
    """Raises Misuse. A recipe that has changed since the run is a line on stderr."""
    if options.run is None:
        raise Misuse(f"Which run? Nothing was run: type `trueloop {verb} NAME`; `trueloop runs` lists them.")
    if options.data is not None and not options.data.is_dir():
        raise Misuse(f"There is no folder {options.data} (--data). Nothing was run.")
    if options.device is not None:
        torch_device(options.device)  # a device that is not here is one sentence
    from trueloop.inference.load import load

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        places = {"data": options.data, "runs": options.runs, "device": options.device or "auto"}
        loaded = load(options.run, checkpoint=options.checkpoint, **places)
    for each in caught:
        if each.category is UserWarning:
            print(f"trueloop: {each.message}", file=sys.stderr)
    if options.data is not None and loaded.splits.facts.more.get("columns"):
        own = "this recipe reads its own table"
        other = f"`trueloop predict {options.run} --input FILE` takes another table"
        raise Misuse(f"--data {options.data} is not used: {own}. Nothing was run: leave --data out; {other}.")
    return loaded
