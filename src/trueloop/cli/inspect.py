"""`trueloop inspect model|ops|checkpoint|tensor|batch|op ...`: what is inside, in the terminal or as a page. Nothing is
trained."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from trueloop.cli.deliver import deliver, writable, write_file
from trueloop.cli.inspect_layer import LayerSubject, inspect_layer
from trueloop.cli.named_run import is_run, path_of_run, recipe_or_run
from trueloop.cli.options import Parser, offer, shape, whole_number
from trueloop.cli.recipe_options import add_recipe_options, unknown_recipe
from trueloop.errors import Misuse, did_you_mean
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipes.catalogue import bundled
from trueloop.report.png import contact_sheet, png
from trueloop.results.document import Document, Picture

if TYPE_CHECKING:
    from torch import nn

    from trueloop.engine.parts import Parts

__all__ = ["inspect", "parser"]

USAGE: Final = (
    "model RECIPE|RUN|FILE.py:CALLABLE [options]", "ops RECIPE|RUN|FILE.py:CALLABLE [options]",
    "checkpoint PATH [options]",
    "tensor FILE[:KEY]|EXPRESSION [options]", "batch RECIPE|RUN [options]", "op torch.add|FILE.py:NAME [options]",
)  # fmt: skip
ABOUT: Final = """Show what is inside. Nothing is trained or changed:

  model       parameters, buffers, tied weights, and the shapes through the
              layers for a real batch
  ops         its operations in one forward and backward that have no backward,
              meta kernel, deterministic form, autocast rule or vmap rule
  checkpoint  names, shapes, dtypes, NaN, Inf, ties, prefixes; no code in the
              files is executed
  tensor      shape, strides, offset, storage as boxes, and the distribution of
              values; of a file, or of "torch.arange(6).view(2,3).t()"
  batch       the first training batch as the model gets it: values, labels,
              images
  op          from Python to the kernel: overloads, the dispatcher's table,
              derivative, and what one call ran"""
EXAMPLES: Final = {
    "model": "digits", "ops": "digits", "checkpoint": "runs/digits", "tensor": "model.safetensors:layer.weight",
    "batch": "digits", "op": "torch.add",
}  # fmt: skip
SAMPLES: Final = 16  # Samples of a batch that are shown one by one


def parser() -> Parser:
    made = Parser("inspect", USAGE, ABOUT)
    offer(made.add_argument("kind", nargs="?", metavar="WHAT", help=" | ".join(EXAMPLES)), EXAMPLES)
    made.add_argument("words", nargs="*", metavar="WHICH", help="a recipe, a run, a file (or `tabular TABLE`)")
    help = f"batch: samples shown one by one ({SAMPLES})"
    made.add_argument("--samples", metavar="N", type=whole_number(), default=SAMPLES, help=help)
    made.add_argument("--input", metavar="SHAPE", type=shape, help="model, of a callable: 8x3x32x32, or 8x128:int64")
    shown = 'op: arguments, repeatable: "f32[4,8], i64[4]<8, dim=-1"; with --activations: a .npy or .pt file'
    made.add_argument("--inputs", metavar="TEXT", action="append", default=[], help=shown)
    made.add_argument("--activations", metavar="LAYER", help="model: the output of this layer; --output FILE writes it")
    made.add_argument("--device", metavar="DEVICE", help="op: cpu or cuda (cuda where the operation takes it)")
    add_recipe_options(made, positional=False)
    made.add_report_options(quiet="")
    made.epilog = "--output FILE.png writes the images of a batch; .safetensors, .npz or .pt the output of a layer."
    made.add_trust()
    return made


def inspect(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if options.kind not in EXAMPLES:
        near = did_you_mean(options.kind or "", EXAMPLES)
        there = ", ".join(EXAMPLES)
        raise Misuse(f"Inspect what?{near} Nothing was run: type `trueloop inspect model digits`. Choose: {there}.")
    if not options.words:
        typed = f"type `trueloop inspect {options.kind} {EXAMPLES[options.kind]}`"
        raise Misuse(f"Which {options.kind}? Nothing was run: {typed}.")
    if len(options.words) > (2 if options.words[0] == "tabular" else 1):
        parser().refuse(options.words[-1])
    if options.activations is not None:
        if options.kind != "model":
            raise Misuse(f"--activations is for `inspect model`, not for {options.kind}. Nothing was run.")
        return inspect_layer(options, _subject(options))
    if options.kind != "op" and (options.inputs or options.device):
        raise Misuse(f"--inputs and --device are for `inspect op`, not for {options.kind}. Nothing was run.")
    images = [Path(name) for name in options.output if name.endswith(".png")]
    if images and (options.kind != "batch" or options.format is not None):
        raise Misuse("--output FILE.png is for the images of a batch. Nothing was run: name a .html file.")
    if images:
        return _write_images(writable(images[0]), _document(options))
    deliver(_document(options), options)
    return 0


def _write_images(file: Path, sheet: Document) -> int:
    picture = next((part for part in sheet.parts if isinstance(part, Picture)), None)
    if picture is None:
        raise Misuse("These inputs are not images. Nothing was written: name a .html file.")
    data = png(contact_sheet(picture))
    write_file(file, data)
    print(f"{file}: {len(data):,} bytes: {', '.join(tile.caption or '-' for tile in picture.tiles)}")
    return 0


# -- what is inside --


def _document(options: argparse.Namespace) -> Document:
    word = options.words[0]
    match options.kind:
        case "checkpoint":
            from trueloop.inspection.checkpoint import inspect_checkpoint

            return inspect_checkpoint(path_of_run(Path(word)))
        case "tensor":
            from trueloop.inspection.tensor import inspect_tensor

            return inspect_tensor(word)
        case "batch":
            from trueloop.inspection.batch import inspect_batch

            parts, name = _parts(options), f"the first training batch of {' '.join(options.words)}"
            return inspect_batch(_batch(parts), parts.splits.facts, options.samples, name)
        case "op":
            return _op(options)
        case "ops":
            return _ops(options)
        case _:
            return _model(options)


def _op(options: argparse.Namespace) -> Document:
    # The profiler would write lines of its own to stderr; torch reads this when it is imported.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from trueloop.cli.probe_op import op_samples
    from trueloop.cli.subject_file import NAMED, named_object, object_in_file
    from trueloop.inspection.op import inspect_op
    from trueloop.op_claims.op_subject import kind_of

    word, module = _op_path(options.words[0]), ModuleType("no file")
    if len(options.inputs) > 1:
        raise Misuse("`inspect op` shows one call. Nothing was run: give --inputs once.")
    op, module = object_in_file(word) if NAMED.fullmatch(word) else (named_object(word, "inspect op", module), module)
    kind_of(op, word)
    name = word.rpartition(":")[2]
    try:
        samples, source = op_samples(options, name, op, module, None)
    except Misuse:
        if options.inputs or options.device:
            raise
        typed = '`--inputs "f32[4,8], dim=0"`, with at least one tensor'
        source = f"No call was made, because no inputs are known that {name} takes: add {typed}."
        return inspect_op(op, word, None, source)
    return inspect_op(op, word, samples[0], source)


def _op_path(word: str) -> str:
    """`add` and `aten::add.Tensor` are understood too."""
    import torch

    space, colons, rest = word.partition("::")
    if colons:
        return f"torch.ops.{space}.{rest}"
    return f"torch.{word}" if word.isidentifier() and hasattr(torch, word) else word


def _model(options: argparse.Namespace) -> Document:
    from trueloop.inspection.model import inspect_model

    word = options.words[0]
    if (model := _own_model(options)) is not None:
        note = () if options.input else ("Give --input SHAPE to see the shapes through its layers.",)
        return inspect_model(model, _zeros(options.input), word, note)
    parts = _parts(options)
    return inspect_model(parts.model, _batch(parts).inputs, f"the model of {' '.join(options.words)}")


def _subject(options: argparse.Namespace) -> LayerSubject:
    """The model whose layer is asked for: of a run with its trained weights."""
    word = options.words[0]
    if options.inputs and options.input is not None:
        raise Misuse("--inputs is a batch of yours, --input SHAPE one of zeros. Nothing was run: give one of them.")
    if (model := _own_model(options)) is not None:
        return LayerSubject(model, word, _zeros(options.input))
    if is_run(word) and word not in bundled() and not word.endswith(".py") and (run := _trained(options)) is not None:
        return run
    parts = _parts(options)
    return LayerSubject(
        parts.model, f"the model of {' '.join(options.words)}", _batch(parts).inputs, parts.recipe, parts.splits.prepare
    )


def _trained(options: argparse.Namespace) -> LayerSubject | None:
    """A run of a recipe, with the weights and the validation data that `trueloop.load` gives."""
    import torch

    from trueloop.inference.load import load
    from trueloop.inspection.activations import prepared

    loaded = load(options.words[0], data=options.data)
    if loaded.trained is None:
        return None
    prepare, samples = loaded.splits.prepare, min(loaded.recipe.batch, len(loaded.trained.source[1]))
    batch = prepared(loaded.trained.fetch(torch.arange(samples)).inputs, loaded.model, prepare)
    title = f"{loaded.folder.name}, weights of step {loaded.trained.run['step']:,}"
    return LayerSubject(loaded.model, title, batch, loaded.recipe, prepare)


def _ops(options: argparse.Namespace) -> Document:
    # The profiler would write lines of its own to stderr; torch reads this when it is imported.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from trueloop.inspection.ops import inspect_ops, plain_step, recipe_step

    if (model := _own_model(options)) is not None:
        if options.input is None:
            typed = f"type `trueloop inspect ops {options.words[0]} --input 8x3x32x32`, or 8x128:int64"
            raise Misuse(f"{options.words[0]} is called once, and its inputs are unknown. Nothing was run: {typed}.")
        return inspect_ops(model, plain_step(model, _zeros(options.input)), options.words[0])
    parts = _parts(options, program="eager", compile="off")
    return inspect_ops(parts.model, recipe_step(parts), f"the model of {' '.join(options.words)}")


def _own_model(options: argparse.Namespace) -> nn.Module | None:
    """Of FILE.py:CALLABLE, or of a path such as torchvision.models.resnet18; None: a recipe or a run."""
    word: str = options.words[0]
    file, colon, name = word.rpartition(":")
    if colon and file.endswith(".py"):
        return _built(Path(file), name)
    if (
        "." in word
        and not Path(word).exists()
        and all(part.isidentifier() for part in word.split("."))
        and not is_run(word)
    ):
        from trueloop.cli.subject_file import named_object

        sys.path.insert(0, os.getcwd())
        return _as_model(named_object(word, "inspect", ModuleType("no file")), word)
    if options.input is not None:
        raise Misuse(f"--input is for FILE.py:CALLABLE; {word} has its own batch. Nothing was run.")
    return None


def _zeros(wanted: tuple[tuple[int, ...], str] | None) -> Any:
    import torch

    return None if wanted is None else torch.zeros(wanted[0], dtype=getattr(torch, wanted[1]))


def _built(file: Path, name: str) -> nn.Module:
    from trueloop.recipes.catalogue import load_file

    module = load_file(file)
    found = getattr(module, name, None)
    if found is None:
        raise Misuse(f"{file} has no {name!r}.{did_you_mean(name, vars(module))} Nothing was run.")
    return _as_model(found, f"{file}:{name}")


def _as_model(found: Any, name: str) -> nn.Module:
    from torch import nn

    model = found if isinstance(found, nn.Module) else found() if callable(found) else found
    if not isinstance(model, nn.Module):
        raise Misuse(f"{name} is of type {type(model).__name__}, not a model. Nothing was run.")
    return model


def _parts(options: argparse.Namespace, **changes: Any) -> Parts:
    """Of the recipe, at its first step, without hooks."""
    recipe, folder = _recipe(options)
    from trueloop.engine.assemble import assemble

    alone = replace(recipe, trackers=(), hooks=(), **changes)
    return assemble(alone, DataRequest(folder, options.download, recipe.seed))


def _batch(parts: Parts) -> Any:
    """The input of the first forward."""
    return parts.batches.micros(parts.batches.again(0, 0))[0]


def _recipe(options: argparse.Namespace) -> tuple[Recipe, Path | None]:
    word = options.words[0]
    if not word.endswith(".py") and word not in bundled() and not Path(word).is_dir() and not is_run(word):
        raise unknown_recipe(word, "a recipe or a run")
    advice = "runs of `trueloop train RECIPE` can be inspected; or name a file and a callable."
    return recipe_or_run(options, options.words, advice)
