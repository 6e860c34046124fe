"""The first training batch as the model gets it, prepared and augmented: statistics, labels, and samples."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.data.source import Batch, Facts
from trueloop.inspection.numbers import dtype_of, histogram, statistics_of
from trueloop.results.document import Bars, Column, Document, Part, Picture, Table, Tile

__all__ = ["inspect_batch"]

STATISTICS: Final = ("min", "max", "mean", "std")
NUMBERS = tuple(Column(name, "real") for name in STATISTICS)
MOST_CLASSES: Final = 40  # labels with a bar each; of more, the most frequent
MOST_COLUMNS: Final = 60  # columns of a table that are listed
CHARACTERS: Final = 100  # of a text that are shown
BYTES: Final = 256  # the vocabulary size of byte tokens


def inspect_batch(batch: Batch, facts: Facts, samples: int, title: str) -> Document:
    """`samples`: number of samples that are shown."""
    inputs, targets = dict(_named(batch.inputs, "inputs")), dict(_named(batch.targets, "targets"))
    parts: list[Part] = [_shapes({**inputs, **targets})]
    for name, tensor in inputs.items():
        parts += _of_inputs(name, tensor, facts)
    labels = _labels(targets, facts)
    values = (histogram(each, f"Distribution of the {name}") for name, each in targets.items())
    parts += [labels] if labels else [bars for bars in values if bars]
    first = next(iter(inputs.values()), None)
    captions = [_caption(batch.targets, number, facts) for number in range(samples)]
    if first is not None and (shown := _samples(first, captions, facts)):
        parts.append(shown)
    return Document(title, tuple(parts), tuple(_remarks({**inputs, **targets})))


def _named(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _named(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _named(item, f"{name}.{number}")


def _shapes(tensors: Mapping[str, Tensor]) -> Table:
    columns = (Column("name", "name"), Column("shape", "shape"), Column("dtype"), Column("device"), *NUMBERS)
    columns += (Column("nan", "count"), Column("inf", "count"))
    rows = []
    for name, tensor in tensors.items():
        statistics = statistics_of(tensor)
        values = (*(statistics[each] for each in STATISTICS), statistics["nan"] or None, statistics["inf"] or None)
        rows.append((name, tuple(tensor.shape), dtype_of(tensor), str(tensor.device), *values))
    return Table("The batch", columns, tuple(rows))


def _of_inputs(name: str, tensor: Tensor, facts: Facts) -> Iterator[Part]:
    if tensor.dim() == 4:
        channels = {str(number): tensor[:, number] for number in range(tensor.shape[1])}
        yield _parts_of(f"Channels of {name}", "channel", channels)
    elif tensor.dim() == 2 and tensor.is_floating_point():
        names = _columns(facts, tensor.shape[1])
        columns = {label: tensor[:, number] for number, label in enumerate(names[:MOST_COLUMNS])}
        yield _parts_of(f"Columns of {name}", "column", columns, tensor.shape[1])
    if tensor.is_floating_point() and (bars := histogram(tensor, f"Distribution of the {name}")):
        yield bars


def _parts_of(title: str, word: str, tensors: Mapping[str, Tensor], of: int = 0) -> Table:
    rows = tuple((name, *(statistics_of(each)[key] for key in STATISTICS)) for name, each in tensors.items())
    note = f"The first {len(rows)} of {of}." if of > len(rows) else ""
    return Table(title, (Column(word, "name"), *NUMBERS), rows, note)


def _columns(facts: Facts, width: int) -> list[str]:
    """Names of a table's columns, if the recipe knows them."""
    described = [column for column in facts.more.get("columns", ()) if isinstance(column, Mapping) and "name" in column]
    coded = [str(column["name"]) for column in described]
    one_hot = [name for column in described for name in _one_hot(str(column["name"]), column.get("categories"))]
    fitting = (names for names in (coded, one_hot) if len(names) == width)
    return next(fitting, [str(number) for number in range(width)])


def _one_hot(name: str, categories: Sequence[str] | None) -> list[str]:
    """One input per category, and one for unseen categories."""
    return [name] if categories is None else [*(f"{name}={each}" for each in categories), f"{name}=(other)"]


# -- labels --


def _labels(targets: Mapping[str, Tensor], facts: Facts) -> Bars | None:
    """The frequency of each class; None: the targets are not classes."""
    tensors = list(targets.values())
    if len(tensors) != 1 or tensors[0].is_floating_point() or (facts.vocabulary > BYTES and not facts.classes):
        return None
    seen = tensors[0].flatten().long()
    seen = seen if facts.ignore is None else seen[seen != facts.ignore]
    different, counts = torch.unique(seen, return_counts=True)
    found = {int(label): int(count) for label, count in zip(different, counts, strict=True)}
    every = dict.fromkeys(range(len(facts.classes)), 0) | found
    kept = sorted(sorted(every, key=lambda label: -every[label])[:MOST_CLASSES])
    names = tuple(_name(label, facts) for label in kept)
    title = "Labels" if len(kept) == len(every) else f"Labels: the {len(kept)} most frequent of {len(every)}"
    return Bars(title, names, tuple(every[label] for label in kept))


def _name(label: int, facts: Facts) -> str:
    if 0 <= label < len(facts.classes):
        return facts.classes[label]
    return repr(chr(label)) if facts.vocabulary == BYTES and not facts.classes and 32 <= label < 127 else str(label)


def _caption(targets: Any, number: int, facts: Facts) -> str:
    if not isinstance(targets, Tensor) or number >= len(targets):
        return ""
    target = targets[number]
    if target.numel() != 1:
        return ""
    return f"{float(target):.4g}" if target.is_floating_point() else _name(int(target), facts)


# -- samples --


def _samples(tensor: Tensor, captions: list[str], facts: Facts) -> Part | None:
    count = min(len(captions), len(tensor))
    if tensor.dim() == 4 and tensor.shape[1] in (1, 3, 4):
        return Picture(f"The first {count} images", tuple(_tiles(tensor[:count], captions)))
    if tensor.dim() == 2 and not tensor.is_floating_point():
        rows = tuple((number, captions[number], _text(tensor[number], facts)) for number in range(count))
        columns = (Column("sample", "count"), Column("label"), Column("text", "name"))
        return Table(f"The first {count} texts", columns, rows)
    return None


def _tiles(images: Tensor, captions: list[str]) -> Iterator[Tile]:
    """All images on one brightness scale, so that they can be compared."""
    pixels = images.detach().cpu().double()[:, :3]
    finite = pixels[pixels.isfinite()]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    scaled = (pixels.nan_to_num(low, high, low) - low) / ((high - low) or 1.0) * 255
    rgb_images = scaled.round().clamp(0, 255).to(torch.uint8)
    rgb_images = rgb_images.expand(-1, 3, -1, -1) if rgb_images.shape[1] == 1 else rgb_images
    for image, caption in zip(rgb_images, captions, strict=False):
        rgb = bytes(image.permute(1, 2, 0).contiguous().flatten().tolist())
        yield Tile(image.shape[2], image.shape[1], rgb, caption)


def _text(tokens: Tensor, facts: Facts) -> str:
    """As text if the tokens are bytes or the recipe names them; else as numbers."""
    numbers = [int(token) for token in tokens]
    words = facts.more.get("tokens")
    words = words if isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words) else ()
    if len(words) > max(numbers, default=0):
        return _short(" ".join(words[number] for number in numbers))
    if facts.vocabulary == BYTES:
        return _short(repr(bytes(numbers).decode("utf-8", "replace"))[1:-1])
    return _short(" ".join(map(str, numbers)))


def _short(text: str) -> str:
    return text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 4]} ..."


def _remarks(tensors: Mapping[str, Tensor]) -> Iterator[str]:
    for name, tensor in tensors.items():
        statistics = statistics_of(tensor)
        if statistics["nan"] or statistics["inf"]:
            yield f"The {name} hold {statistics['nan']:,} NaN and {statistics['inf']:,} Inf: the loss will be NaN."
        elif tensor.numel() > 1 and statistics["std"] == 0:
            yield f"All values of the {name} are {statistics['min']:.4g}."
