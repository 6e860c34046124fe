"""`trueloop checkpoint show|verify|convert PATH`: what a checkpoint holds, whether it is valid, its weights as one
file.

PATH is a run's folder, its `checkpoints` folder, or one checkpoint. A sharded checkpoint of several processes is
read in one process. `show` and `verify` import no torch.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from trueloop.checkpoint.locate import best_or_newest, find_checkpoints
from trueloop.checkpoint.safetensors_header import entries_of
from trueloop.checkpoint.sharded import TensorPieces, group_of, is_sharded, read_piece_table
from trueloop.checkpoint.store import Folder
from trueloop.cli.options import Parser
from trueloop.errors import BadCheckpoint, Misuse, did_you_mean

__all__ = ["checkpoint", "parser"]

ABOUT: Final = """Show what a checkpoint holds, verify that its files are complete and unchanged, or convert its
weights to one file. PATH is a run's folder, its `checkpoints` folder, or one checkpoint, sharded or not."""
ACTIONS: Final = ("show", "verify", "convert")


def parser() -> Parser:
    made = Parser("checkpoint", "show|verify|convert PATH [options]", ABOUT)
    made.add_argument("action", nargs="?", metavar="ACTION", help=" | ".join(ACTIONS))
    made.add_argument(
        "path", nargs="?", type=Path, metavar="PATH", help="a run, a folder of checkpoints, or one checkpoint"
    )
    made.add_argument("--to", type=Path, metavar="FILE", help="convert: FILE.safetensors or FILE.pt")
    made.add_argument("--ema", action="store_true", help="convert: the moving average instead of the weights")
    made.add_argument("-q", "--quiet", action="store_true", help="verify: print damaged checkpoints only")
    return made


def checkpoint(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    if options.action not in ACTIONS:
        near = did_you_mean(options.action or "", ACTIONS)
        raise Misuse(f"Show, verify or convert?{near} Nothing was run: type `trueloop checkpoint show runs/NAME`.")
    if options.path is None:
        raise Misuse(f"Which checkpoint? Nothing was run: type `trueloop checkpoint {options.action} runs/NAME`.")
    match options.action:
        case "show":
            return _show(options.path)
        case "verify":
            return _verify(options.path, quiet=options.quiet)
        case _:
            return _convert(options.path, options.to, ema=options.ema)


def _show(path: Path) -> int:
    store, names = find_checkpoints(path)
    name = best_or_newest(store, names)
    if len(names) > 1:
        for each in names:
            print(f"{each}{'   best' if each == store.best() else ''}{'   shown below' if each == name else ''}")
        print()
    about = store.manifest(name)
    print(store.where(name))
    _table(_facts(about).items())
    print("files")
    _table(
        (file, f"{entry['bytes']:,} bytes   sha256 {entry['sha256'][:12]}")
        for file, entry in sorted(about["files"].items())
    )
    if is_sharded(about):
        _show_pieces(read_piece_table(about, store.where(name)))
        return 0
    for file in sorted(about["files"]):
        if file.endswith(".safetensors"):
            _show_tensors(store, name, file)
    return 0


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
    return ", ".join(
        f"{key}={json.dumps(value)}" for key, value in recipe.items() if value not in (None, "", [], {}, False)
    )


def _show_tensors(store: Folder, name: str, file: str) -> None:
    entries = entries_of(store.folder / name / file)
    print(f"{file}: {len(entries)} tensors, {sum(entry.count for entry in entries):,} numbers")
    _table((entry.name, f"{_shape(entry.shape):<16} {entry.dtype:<5} {entry.count:>12,}") for entry in entries)


def _show_pieces(spreads: dict[str, TensorPieces]) -> None:
    """By tensor, not by the file that holds the piece."""
    groups: dict[str, list[tuple[str, TensorPieces]]] = {}
    for key, spread in sorted(spreads.items()):
        group, tensor = group_of(key)
        groups.setdefault(group, []).append((tensor, spread))
    for group, held in sorted(groups.items()):
        files = {piece.file for _, spread in held for piece in spread.pieces}
        print(
            f"{group}: {len(held)} tensors, {sum(spread.count for _, spread in held):,} numbers, in {len(files)} files"
        )
        _table(
            (tensor, f"{_shape(each.shape):<16} {each.dtype:<9} {each.count:>12,}  {_pieces(each)}")
            for tensor, each in held
        )


def _pieces(spread: TensorPieces) -> str:
    """Empty pieces do not count."""
    count = sum(0 not in piece.size for piece in spread.pieces)
    return "in one piece" if count <= 1 else f"in {count} pieces"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "-"


def _table(rows: Iterable[tuple[str, str]]) -> None:
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")


def _verify(path: Path, *, quiet: bool) -> int:
    """0: all are valid; 1: one is not."""
    store, names = find_checkpoints(path)
    damaged = 0
    for name in names:
        try:
            manifest = store.manifest(name)
            files = manifest["files"]
            for file in files:
                store.verify(name, file)
            if is_sharded(manifest):
                read_piece_table(manifest, store.where(name))
            size = sum(entry["bytes"] for entry in files.values())
            if not quiet:
                print(f"{store.where(name)} is valid: {len(files)} files, {size:,} bytes")
        except BadCheckpoint as error:
            damaged += 1
            print(error)
    if damaged:
        print(f"{damaged} of {len(names)} damaged. `trueloop resume` skips them and uses the newest valid one.")
    return 1 if damaged else 0


def _convert(path: Path, to: Path | None, *, ema: bool) -> int:
    if to is None or to.suffix not in (".safetensors", ".pt"):
        raise Misuse("Which file? Nothing was written: add --to FILE.safetensors or --to FILE.pt.")
    from trueloop.checkpoint.weights import best_contents, write_weights

    contents, where = best_contents(path)
    if ema and "ema" not in contents.weights:
        raise Misuse(f"{where} has no moving average of the weights. Nothing was written: leave --ema out.")
    models = [name for name in ("ema" if ema else "model", *contents.weights) if name in contents.weights]
    state = contents.state_of(models[0])
    left_out = write_weights(state, to)
    print(f"{to}: {len(state) - len(left_out)} tensors of {where} ({models[0]})")
    if left_out:
        print(f"Left out, because they are not tensors: {', '.join(left_out)}")
    return 0
