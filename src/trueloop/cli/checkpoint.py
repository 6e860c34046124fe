"""`trueloop checkpoint show|verify|convert PATH`: what a checkpoint holds, whether it is valid, its weights as one
file.

PATH is a run's folder, its `checkpoints` folder, or one checkpoint. A sharded checkpoint of several processes is
read in one process. `show` and `verify` import no torch.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from trueloop.checkpoint.locate import best_or_newest, find_checkpoints
from trueloop.checkpoint.safetensors_header import entries_of
from trueloop.checkpoint.sharded import TensorPieces, group_of, is_sharded, read_piece_table
from trueloop.checkpoint.store import Folder
from trueloop.cli.deliver import Delivery
from trueloop.cli.named_run import path_of_run
from trueloop.cli.options import Parser, offer, one_of
from trueloop.errors import BadCheckpoint, Misuse, did_you_mean
from trueloop.results.check import ExitCode
from trueloop.results.document import Column, Document, Facts, Item, Items, Part, Table

__all__ = ["checkpoint", "parser"]

ABOUT: Final = """Show what a checkpoint holds, verify that its files are complete and unchanged, or convert its
weights to one file. PATH is a run's folder, its `checkpoints` folder, or one checkpoint, sharded or not."""
ACTIONS: Final = ("show", "verify", "convert")
WEIGHTS: Final = {"ema": "the moving average", "model": "the trained weights"}
TENSOR: Final = (Column("tensor", "name"), Column("shape", "shape"), Column("dtype"), Column("numbers", "count"))


def parser() -> Parser:
    made = Parser("checkpoint", "show|verify|convert PATH [options]", ABOUT)
    offer(made.add_argument("action", nargs="?", metavar="ACTION", help=" | ".join(ACTIONS)), ACTIONS)
    made.add_argument("path", nargs="?", type=Path, metavar="PATH", help="a run, a folder of checkpoints, or one")
    made.add_argument("--to", type=Path, metavar="FILE", help="convert: FILE.safetensors or FILE.pt")
    which = "convert: ema | model (default: the evaluated weights, so the moving average if there is one)"
    made.add_argument("--weights", metavar="WHICH", type=one_of(WEIGHTS), help=which)
    made.add_report_options(quiet="verify: print damaged checkpoints only")
    return made


def checkpoint(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if options.action not in ACTIONS:
        near = did_you_mean(options.action or "", ACTIONS)
        raise Misuse(f"Show, verify or convert?{near} Nothing was run: type `trueloop checkpoint show runs/NAME`.")
    if options.path is None:
        raise Misuse(f"Which checkpoint? Nothing was run: type `trueloop checkpoint {options.action} runs/NAME`.")
    delivery = Delivery(options)
    options.path = path_of_run(options.path)
    if options.action == "verify":
        document, valid = _verify(options.path, quiet=options.quiet)
        delivery.deliver(document, healthy=valid)
        return ExitCode.CLEAN if valid else ExitCode.FINDINGS
    show = options.action == "show"
    delivery.deliver(_show(options.path) if show else _convert(options.path, options.to, options.weights))
    return ExitCode.CLEAN


def _show(path: Path) -> Document:
    store, names = find_checkpoints(path)
    name = best_or_newest(store, names)
    about = store.manifest(name)
    parts: list[Part] = [Facts("", _facts(about))]
    if len(names) > 1:
        marks = {store.best(): "best", name: "shown below"}
        if store.best() == name:
            marks = {name: "best, shown below"}
        parts.insert(0, Table("", (Column("checkpoint"), Column("")), tuple((at, marks.get(at, "")) for at in names)))
    heads = (Column("file"), Column("bytes", "count"), Column("sha256"))
    files = sorted(about["files"].items())
    parts.append(Table("Files", heads, tuple((file, each["bytes"], each["sha256"][:12]) for file, each in files)))
    parts += _pieces(read_piece_table(about, store.where(name))) if is_sharded(about) else _tensors(store, name, about)
    return Document(str(store.where(name)), tuple(parts), name=f"trueloop checkpoint: {store.where(name)}")


def _facts(about: dict[str, Any]) -> dict[str, str]:
    """In the order in which people ask."""
    best = about.get("best")
    shown = {
        "step": f"{about['step']:,}" if isinstance(about.get("step"), int) else None,
        "epoch": f"{about['epoch']}, next batch {about.get('batch')}" if "epoch" in about else None,
        "best": f"{about.get('metric')} {best:.6g} at step {about.get('best_step'):,}" if best is not None else None,
        "parts": ", ".join(about["parts"]) if "parts" in about else None,
        "trueloop": about.get("trueloop"),
        "torch": about.get("torch"),
        "recipe": _recipe(about.get("recipe")),
    }
    return {key: str(value) for key, value in shown.items() if value is not None}


def _recipe(recipe: Any) -> str | None:
    """Without empty fields."""
    if not isinstance(recipe, dict):
        return None
    return ", ".join(f"{name}={json.dumps(it)}" for name, it in recipe.items() if it not in (None, "", [], {}, False))


def _tensors(store: Folder, name: str, about: dict[str, Any]) -> Iterator[Table]:
    for file in sorted(about["files"]):
        if file.endswith(".safetensors"):
            entries = entries_of(store.folder / name / file)
            title = f"{file}: {len(entries)} tensors, {sum(entry.count for entry in entries):,} numbers"
            yield Table(title, TENSOR, tuple((each.name, each.shape, each.dtype, each.count) for each in entries))


def _pieces(spreads: dict[str, TensorPieces]) -> Iterator[Table]:
    """By tensor, not by the file that holds the piece."""
    groups: dict[str, list[tuple[str, TensorPieces]]] = {}
    for key, spread in sorted(spreads.items()):
        group, tensor = group_of(key)
        groups.setdefault(group, []).append((tensor, spread))
    for group, held in sorted(groups.items()):
        files = {piece.file for _, spread in held for piece in spread.pieces}
        numbers = sum(spread.count for _, spread in held)
        rows = tuple(
            (name, each.shape, each.dtype, each.count, max(1, sum(0 not in piece.size for piece in each.pieces)))
            for name, each in held
        )
        title = f"{group}: {len(held)} tensors, {numbers:,} numbers, in {len(files)} files"
        yield Table(title, (*TENSOR, Column("pieces", "count")), rows)


def _verify(path: Path, *, quiet: bool) -> tuple[Document, bool]:
    """The report, and whether all are valid."""
    store, names = find_checkpoints(path)
    tried = [_tried(store, name) for name in names]
    damaged = sum(not each["valid"] for each in tried)
    shown = [each for each in tried if not (quiet and each["valid"])]
    items = tuple(Item("", each["message"], "good" if each["valid"] else "error") for each in shown)
    skips = f"{damaged} of {len(names)} damaged. `trueloop resume` skips them and uses the newest valid one."
    closing = (skips,) if damaged else ()
    title = f"Checkpoints in {path}"
    return Document(title, (Items("", items),), closing=closing, lead=False, data={"checkpoints": tried}), not damaged


def _tried(store: Folder, name: str) -> dict[str, Any]:
    where = store.where(name)
    try:
        manifest = store.manifest(name)
        for file in manifest["files"]:
            store.verify(name, file)
        if is_sharded(manifest):
            read_piece_table(manifest, where)
    except BadCheckpoint as error:
        return {"path": where, "valid": False, "message": str(error)}
    size = sum(entry["bytes"] for entry in manifest["files"].values())
    message = f"{where} is valid: {len(manifest['files'])} files, {size:,} bytes"
    return {"path": where, "valid": True, "message": message}


def _convert(path: Path, to: Path | None, weights: str | None) -> Document:
    if to is None or to.suffix not in (".safetensors", ".pt"):
        raise Misuse("Which file? Nothing was written: add --to FILE.safetensors or --to FILE.pt.")
    from trueloop.checkpoint.weights import best_contents, write_weights

    contents, where = best_contents(path)
    averaged = "ema" in contents.weights
    if weights == "ema" and not averaged:
        raise Misuse(f"{where} has no moving average of the weights. Nothing was written: leave --weights ema out.")
    preferred = weights or ("ema" if averaged else "model")
    models = [name for name in (preferred, *contents.weights) if name in contents.weights]
    state = contents.state_of(models[0])
    left_out = write_weights(state, to)
    kept = len(state) - len(left_out)
    notes = (f"Left out, because they are not tensors: {', '.join(left_out)}",) if left_out else ()
    data = {"file": to, "tensors": kept, "checkpoint": where, "weights": models[0], "left_out": left_out}
    scored = ", which was evaluated" if models[0] == "ema" else "; the moving average was evaluated" if averaged else ""
    which = f"{models[0]}: {WEIGHTS.get(models[0], 'weights')}{scored}"
    return Document(f"{to}: {kept} tensors of {where} ({which})", (), notes, data=data)
