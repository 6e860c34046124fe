"""The contents of a checkpoint folder or file: names, shapes, dtypes, NaN and Inf, tied tensors, wrapper prefixes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from trueloop.checkpoint.contents import read_contents
from trueloop.checkpoint.locate import best_or_newest, find_checkpoints
from trueloop.checkpoint.sharded import is_sharded
from trueloop.inspection.files import Opened, leaves_of, open_file
from trueloop.inspection.numbers import dtype_counts, dtype_of, not_finite, same_storage
from trueloop.results.document import Column, Document, Facts, Part, Table

__all__ = ["inspect_checkpoint"]

COLUMNS = (
    *(Column("name", "name"), Column("shape", "shape"), Column("dtype"), Column("elements", "count")),
    *(Column("nan", "count"), Column("inf", "count"), Column("tied with", "name")),
)
PREFIXES: Final = {
    "module.": "DataParallel or DistributedDataParallel: save `model.module.state_dict()`, or remove it before loading",
    "_orig_mod.": "torch.compile: save the uncompiled model, or remove it before loading",
    "_fsdp_wrapped_module.": "FSDP: gather the state before saving it",
}  # Prefix of names -> the wrapper that writes it
LONGEST: Final = 80  # characters of a plain value that are shown


def inspect_checkpoint(path: Path) -> Document:
    """Raises BadCheckpoint."""
    return _of_folder(path) if path.is_dir() else _of_file(open_file(path))


def _of_folder(path: Path) -> Document:
    store, names = find_checkpoints(path)
    name = best_or_newest(store, names)
    contents = read_contents(store, name)
    kept = "only this one" if len(names) == 1 else f"{len(names)}: {', '.join(names)}"
    facts: dict[str, Any] = {"checkpoint": store.where(name), "kept": kept, "verified": "size and hash of every file"}
    for key, value in contents.about.items():
        if key not in ("recipe", "files") and value is not None:
            facts[key] = value if isinstance(value, (bool, int, float, str)) else _short(value)
    parts: list[Part] = [Facts("", facts)]
    notes: list[str] = []
    for model, tensors in contents.weights.items():
        parts.append(_table(f"{model}, sharded" if is_sharded(contents.about) else f"{model}.safetensors", tensors))
        notes += _remarks(tensors)
    tensors, others = _leaves_of(contents.training)
    parts += [_table("training.pt, tensors", tensors), _values("training.pt, values", others)]
    return Document(f"checkpoint {store.where(name)}", _not_empty(parts), tuple(notes))


def _leaves_of(training: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    leaves = dict(leaves_of(training))
    tensors = {name: value for name, value in leaves.items() if isinstance(value, Tensor)}
    return tensors, {name: value for name, value in leaves.items() if name not in tensors}


def _of_file(opened: Opened) -> Document:
    tensors = opened.tensors
    facts = {
        "file": str(opened.path),
        "size": f"{opened.size:,} bytes",
        "format": opened.format,
        "tensors": f"{len(tensors):,} with {sum(each.numel() for each in tensors.values()):,} elements",
        "dtypes": dtype_counts(tensors.values()),
    }
    parts: list[Part] = [Facts("", facts), _table("Tensors", tensors), _values("Other values", opened.others)]
    return Document(f"checkpoint {opened.path}", _not_empty(parts), tuple(_remarks(tensors)))


def _not_empty(parts: list[Part]) -> tuple[Part, ...]:
    return tuple(part for part in parts if not isinstance(part, Table) or part.rows)


def _table(title: str, tensors: Mapping[str, Tensor]) -> Table:
    together = same_storage(dict(tensors))
    rows = (
        (name, tuple(each.shape), dtype_of(each), each.numel(), *not_finite(each), together[name])
        for name, each in tensors.items()
    )
    return Table(title, COLUMNS, tuple((*row[:4], row[4] or None, row[5] or None, row[6]) for row in rows))


def _values(title: str, values: Mapping[str, Any]) -> Table:
    rows = tuple((name, type(value).__name__, _short(value)) for name, value in values.items())
    return Table(title, (Column("name", "name"), Column("kind"), Column("value")), rows)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def _remarks(tensors: Mapping[str, Tensor]) -> Iterator[str]:
    floats = {name: not_finite(each) for name, each in tensors.items()}
    broken = {name: counts for name, counts in floats.items() if any(counts)}
    if broken:
        name, (nan, inf) = next(iter(broken.items()))
        rest = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        yield f"{name} holds {nan:,} NaN and {inf:,} Inf{rest}. Training from this checkpoint would give NaN."
    for prefix, origin in PREFIXES.items():
        count = sum(name.startswith(prefix) for name in tensors)
        if count:
            names = "Every name begins" if count == len(tensors) else f"{count} of {len(tensors)} names begin"
            yield f"{names} with `{prefix}`, which comes from {origin}."
    if len({dtype_of(each) for each in tensors.values() if each.is_floating_point()}) > 1:
        yield "The weights have several floating-point dtypes."
