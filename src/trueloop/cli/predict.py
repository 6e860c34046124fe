"""`trueloop predict RUN --input FILE|FOLDER --output preds.csv`: predictions for new inputs, or for a split."""

import csv
import io
import sys
from pathlib import Path
from typing import Final

from trueloop.cli.deliver import writable, write_file
from trueloop.cli.loaded_run import add_run_options, load_run
from trueloop.cli.options import Parser, one_of
from trueloop.errors import Misuse
from trueloop.trust.files import printable

__all__ = ["parser", "predict"]

ABOUT: Final = """Predict with the best weights of a run (their moving average, if the recipe has one). A row per
sample: its number or file name, the class and the probabilities, or the value.

  a table      CSV, TSV or Parquet, with the columns of the training table
  images       a file, or a folder; as in training, resized
  tensors      .npy or .pt, one row per sample, as the recipe's data gives them

The preprocessing of the training is applied."""


def parser() -> Parser:
    made = Parser("predict", ("RUN --input FILE|FOLDER [options]", "RUN --split test [options]"), ABOUT)
    add_run_options(made)
    add = made.add_argument
    add("--input", type=Path, metavar="PATH", help="a file, or a folder of them")
    splits = ("test", "valid", "train")
    add("--split", metavar="NAME", type=one_of(splits), help="instead: test | valid | train of its own data")
    add("--output", metavar="FILE", help="the CSV file to write (default: stdout)")
    return made


def predict(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if options.run is not None and (options.input is None) == (options.split is None):
        typed = f"`trueloop predict {options.run} --input FILE`, or `--split test`"
        raise Misuse(f"Predict what? Nothing was run: type {typed}, one of them.")
    if options.output is not None and Path(options.output).suffix.lower() != ".csv":
        raise Misuse(f"--output {options.output} is not a .csv file, and predictions are CSV. Nothing was run.")
    file = None if options.output is None else writable(Path(options.output))
    loaded = load_run(options, "predict")
    from trueloop.inference.predictions import PredictionTable
    from trueloop.inference.read_inputs import read_inputs

    found = PredictionTable(loaded)
    if options.split is not None:
        found.add_split(options.split)
    else:
        assert loaded.trained is not None  # a run without a recipe was refused
        unused: dict[str, None] = {}
        for rows in read_inputs(options.input, loaded.trained):
            found.add(rows)
            unused |= dict.fromkeys(rows.unused)
        if unused:
            names = printable(", ".join(unused))
            print(f"trueloop: columns that the model does not use: {names}.", file=sys.stderr)
    text = _as_csv([found.header, *found.rows])
    if file is None:
        print(printable(text), end="")
    else:
        write_file(file, text.encode("utf-8"))
        print(f"{len(found.rows):,} predictions in {options.output}")
    return 0


def _as_csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
