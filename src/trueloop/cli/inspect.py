"""`trueloop inspect model|checkpoint|tensor|batch ...`: what is there, as tables in the terminal, or as a page. Nothing
is trained."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trueloop.cli.failure import with_their_errors
from trueloop.cli.options import Parser
from trueloop.cli.train import settings_of
from trueloop.errors import Misuse, did_you_mean
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipes.catalogue import bundled, find_recipe
from trueloop.recipes.origin import origin_of, recipe_of
from trueloop.report import FORMATS, print_report, render
from trueloop.report.png import contact_sheet, png
from trueloop.results.document import Document, Picture

if TYPE_CHECKING:
    from torch import nn

    from trueloop.engine.parts import Parts

__all__ = ["inspect"]

USAGE: Final = (
    "model RECIPE|RUN|FILE.py:CALLABLE [options]\n       trueloop inspect checkpoint PATH [options]\n"
    "       trueloop inspect tensor FILE[:KEY] [options]\n       trueloop inspect batch RECIPE|RUN [options]"
)
ABOUT: Final = """What is there, looked at without training or changing anything:

  model       parameters and buffers, what is tied, what learns, and the shapes through the layers for a real batch
  checkpoint  what the files hold: names, shapes, dtypes, nan, inf, ties, prefixes; nothing in them is ever run
  tensor      shape, stride, offset, whose storage it lies in, and how its numbers lie
  batch       the first training batch as the model gets it: numbers, labels, and a picture of it"""
KINDS: Final = ("model", "checkpoint", "tensor", "batch")
EXAMPLES: Final = {
    "model": "digits",
    "checkpoint": "runs/digits",
    "tensor": "model.safetensors:layer.weight",
    "batch": "digits",
}
SAMPLES: Final = 16
"""Samples of a batch that are shown one by one."""


def inspect(arguments: list[str]) -> int:
    asked = _parsed(arguments)
    return with_their_errors(lambda: _shown(_sheet(asked), asked))


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("inspect", USAGE, ABOUT)
    parser.add_argument("kind", nargs="?", metavar="WHAT", help=" | ".join(KINDS))
    parser.add_argument(
        "words", nargs="*", metavar="WHICH", help="a recipe, a run, a file (`tabular TABLE` for a table)"
    )
    parser.add_argument(
        "--samples", metavar="N", type=_count, default=SAMPLES, help=f"batch: how many are shown one by one ({SAMPLES})"
    )
    parser.add_argument(
        "--input", metavar="SHAPE", type=_shape, help="model, of a callable: 8x3x32x32, or 8x128:int64 for tokens"
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], help="of a recipe: another value for a field"
    )
    parser.add_argument("--target", metavar="COLUMN", help="of `tabular TABLE`: the column to predict")
    parser.add_argument("--data", type=Path, metavar="DIR", help="of a recipe: the folder that holds the data")
    parser.add_argument(
        "--download",
        action="store_true",
        help="of a recipe: fetch the data from their public home if they are not here",
    )
    parser.add_argument("--format", metavar="NAME", default=None, help=" | ".join(FORMATS))
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write it there: .html, .json, .txt; .png: the pictures of a batch"
    )
    parser.add_argument("--no-color", action="store_true", help="no colours; the variable NO_COLOR does the same")
    asked = parser.parse_all(arguments)
    if asked.kind not in KINDS:
        near = did_you_mean(asked.kind or "", KINDS)
        raise Misuse(
            f"Inspect what?{near} Nothing was shown: type `trueloop inspect model digits`. There are: {', '.join(KINDS)}."
        )
    if not asked.words:
        raise Misuse(
            f"Which {asked.kind}? Nothing was shown: type `trueloop inspect {asked.kind} {EXAMPLES[asked.kind]}`."
        )
    if len(asked.words) > (2 if asked.words[0] == "tabular" else 1):
        parser.refuse(asked.words[-1])
    _refuse(asked)
    return asked


def _refuse(asked: argparse.Namespace) -> None:
    if asked.format is not None and asked.format not in FORMATS:
        near = did_you_mean(asked.format, FORMATS)
        raise Misuse(f"There is no format {asked.format!r}.{near} Nothing was shown. There are: {', '.join(FORMATS)}.")
    if asked.output is None:
        return
    if asked.output.suffix == ".png" and (asked.kind != "batch" or asked.format is not None):
        raise Misuse("--output FILE.png is for the pictures of a batch. Nothing was shown: name a .html file.")
    if asked.output.is_dir() or not asked.output.absolute().parent.is_dir() or asked.output.suffix == ".py":
        raise Misuse(
            f"--output {asked.output} cannot be written: it is no file in a folder that is there. Nothing was shown."
        )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise Misuse(f"--samples cannot be {text!r}: it is a number from 1 on. Nothing was shown.")
    return int(text)


def _shape(text: str) -> tuple[tuple[int, ...], str]:
    sizes, _, dtype = text.partition(":")
    if not all(size.isdecimal() for size in sizes.split("x")) or dtype not in ("", "float32", "int64"):
        raise Misuse(f"--input {text!r} is no shape, as in 8x3x32x32 or 8x128:int64. Nothing was shown.")
    return tuple(map(int, sizes.split("x"))), dtype or "float32"


# -- what is there --


def _sheet(asked: argparse.Namespace) -> Document:
    word = asked.words[0]
    match asked.kind:
        case "checkpoint":
            from trueloop.inspection.checkpoint import inspect_checkpoint

            return inspect_checkpoint(Path(word))
        case "tensor":
            from trueloop.inspection.tensor import inspect_tensor

            return inspect_tensor(word)
        case "batch":
            from trueloop.inspection.batch import inspect_batch

            parts = _parts(asked)
            return inspect_batch(
                _batch(parts), parts.splits.facts, asked.samples, f"the first training batch of {' '.join(asked.words)}"
            )
        case _:
            return _model(asked)


def _model(asked: argparse.Namespace) -> Document:
    from trueloop.inspection.model import inspect_model

    word = asked.words[0]
    file, colon, name = word.rpartition(":")
    if colon and file.endswith(".py"):
        model = _built(Path(file), name)
        return inspect_model(
            model,
            _zeros(asked.input),
            word,
            () if asked.input else ("Give --input SHAPE to see the shapes through its layers.",),
        )
    if asked.input is not None:
        raise Misuse(f"--input is for FILE.py:CALLABLE; {word} brings a batch of its own. Nothing was shown.")
    parts = _parts(asked)
    return inspect_model(parts.model, _batch(parts).inputs, f"the model of {' '.join(asked.words)}")


def _zeros(asked: tuple[tuple[int, ...], str] | None) -> Any:
    import torch

    return None if asked is None else torch.zeros(asked[0], dtype=getattr(torch, asked[1]))


def _built(file: Path, name: str) -> nn.Module:
    from torch import nn

    from trueloop.recipes.catalogue import load_file

    module = load_file(file)
    made = getattr(module, name, None)
    if made is None:
        raise Misuse(f"{file} has no {name!r}.{did_you_mean(name, vars(module))} Nothing was shown.")
    model = made if isinstance(made, nn.Module) else made() if callable(made) else made
    if not isinstance(model, nn.Module):
        raise Misuse(f"{file}:{name} gives a value of type {type(model).__name__}, not a model. Nothing was shown.")
    return model


def _parts(asked: argparse.Namespace) -> Parts:
    """The recipe's, at its beginning; nobody listens to it."""
    recipe, folder = _recipe(asked)
    from trueloop.engine.assemble import assemble

    return assemble(replace(recipe, trackers=(), hooks=()), DataRequest(folder, asked.download, recipe.seed))


def _batch(parts: Parts) -> Any:
    """What one forward of the first step is given."""
    batch = parts.batches.batch_at(0, 0)
    assert batch is not None, "a single process has a part in every batch"
    return parts.batches.micros(batch)[0]


def _recipe(asked: argparse.Namespace) -> tuple[Recipe, Path | None]:
    from trueloop.recipe.overrides import apply_overrides
    from trueloop.session.folder import read_about

    word, folder, settings = asked.words[0], asked.data, settings_of(asked.set)
    if Path(word).is_dir():
        about = read_about(Path(word))
        told = about.get("data")
        origin = origin_of(
            Path(word), about, "runs of `trueloop train RECIPE` can be inspected; or name its file and callable."
        )
        return apply_overrides(recipe_of(origin), settings), folder or (Path(told) if told else None)
    if not word.endswith(".py") and word not in bundled():
        hint = did_you_mean(word, bundled())
        raise Misuse(
            f"{word!r} is no recipe and no run's folder.{hint} Nothing was shown. There are: {', '.join(bundled())}."
        )
    table = {"table": asked.words[1]} if len(asked.words) > 1 else {}
    return apply_overrides(
        find_recipe(word, table | ({"target": asked.target} if asked.target else {})), settings
    ), folder


# -- how it is shown --


def _shown(sheet: Document, asked: argparse.Namespace) -> int:
    output: Path | None = asked.output
    if output is not None and output.suffix == ".png":
        picture = next((part for part in sheet.parts if isinstance(part, Picture)), None)
        if picture is None:
            raise Misuse(
                "These inputs are no images: there is no picture to write. Nothing was written: name a .html file."
            )
        return _write(
            output, png(contact_sheet(picture)), ": " + ", ".join(tile.caption or "-" for tile in picture.tiles)
        )
    chosen = asked.format or {".html": "html", ".json": "json", ".md": "markdown"}.get(
        output.suffix if output else "", "text"
    )
    if chosen == "text" and output is None:
        print_report(sheet, to=sys.stdout, color=not asked.no_color)
        return 0
    text = render(sheet, chosen)
    if output is not None:
        return _write(output, text.encode("utf-8", "backslashreplace"))
    sys.stdout.write(text)
    return 0


def _write(file: Path, data: bytes, captions: str = "") -> int:
    try:
        file.write_bytes(data)
    except OSError as error:
        raise Misuse(f"{file} could not be written ({error.strerror}).") from None
    print(f"{file}: {len(data):,} bytes{captions}")
    return 0
