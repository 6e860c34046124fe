"""What four numbers of a box mean in each file, by the edges in the pictures: corners or sizes, x or y first.

A box is drawn around something, so the picture changes along its four sides. Of the readings that are in use, one fits
nearly every picture better than the others do. Where the pictures do not tell, nothing is reported.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy
from numpy.typing import NDArray

from trueloop.measure.splits import kind_of, split_of
from trueloop.measure.table_differences import Difference
from trueloop.measure.tables import Table
from trueloop.usercode.source import source_of

__all__ = ["BoxFormat", "box_format", "box_formats", "converts_boxes"]

LEAST: Final = 40  # boxes of a file
MOST_ROWS: Final = 80
MOST_FILES: Final = 12
MOST_PICTURES: Final = 4  # arrays that a file is tried with
SMALLEST: Final = 12  # pixels of a picture
LARGEST: Final = 2**31  # of a coordinate in pixels
CHANNELS: Final = 4
STEEP: Final = 1.3  # times the mean change from pixel to pixel
BETTER: Final = 0.75  # of the pictures: the reading fits better than each other one
DIFFERING: Final = 0.3  # of the boxes, at least, are different ones in two readings
READINGS: Final = ("x1, y1, x2, y2", "y1, x1, y2, x2", "x, y, width, height", "y, x, height, width",
                   "center x, center y, width, height")  # fmt: skip

Floats = NDArray[numpy.float64]


class BoxFormat(NamedTuple):
    reading: str
    steep: float  # change across the sides of the boxes, in means of the picture
    others: float  # the same of the best of the other readings
    better: float  # share of the pictures that this reading fits better than that one


def box_format(boxes: Floats, pictures: NDArray[numpy.generic]) -> BoxFormat | None:
    """The reading that fits [n, 4] and their pictures [n, H, W], if one clearly does."""
    step = -(-len(boxes) // MOST_ROWS)
    boxes, shown = boxes[::step], _gray(pictures[::step])
    if len(boxes) < LEAST or not (numpy.abs(boxes) < LARGEST).all() or min(shown.shape[1:]) < SMALLEST:
        return None  # also with NaN
    across = _smooth(numpy.abs(numpy.diff(shown, axis=2)), 2), _smooth(numpy.abs(numpy.diff(shown, axis=1)), 1)
    mean = (across[0].mean((1, 2)) + across[1].mean((1, 2))) / 2
    usable = mean > 0
    if usable.sum() < LEAST:
        return None
    height, width = shown.shape[1:]
    corners = numpy.stack([_corners(boxes, reading, width, height) for reading in range(len(READINGS))])
    steep = numpy.array([[_steep(across[0][row], across[1][row], box) / mean[row] for row, box in enumerate(reading)
                          if usable[row]] for reading in corners])  # fmt: skip
    best = int(steep.mean(1).argmax())
    rivals = [other for other in range(len(READINGS)) if other != best]
    shares = {}
    for other in rivals:
        apart = (corners[best] != corners[other]).any(1)[usable]
        if apart.mean() < DIFFERING:
            return None
        shares[other] = float((steep[best] > steep[other])[apart].mean())
    if steep[best].mean() < STEEP or min(shares.values()) < BETTER:
        return None
    second = max(rivals, key=lambda other: steep[other].mean())
    return BoxFormat(READINGS[best], float(steep[best].mean()), float(steep[second].mean()), shares[second])


def _gray(pictures: NDArray[numpy.generic]) -> Floats:
    shown = pictures.astype(numpy.float64)
    if shown.ndim == 4:
        shown = shown.mean(-1 if shown.shape[-1] <= CHANNELS else 1)
    return shown


def _smooth(across: Floats, axis: int) -> Floats:
    """Mean of three neighbors: boxes end at a pixel or just behind it. Entry n is the side between n and n + 1."""
    before, after = numpy.roll(across, 1, axis), numpy.roll(across, -1, axis)
    return (before + across + after) / 3


def _corners(boxes: Floats, reading: int, width: int, height: int) -> Floats:
    """x1, y1, x2, y2 in whole pixels."""
    a, b, c, d = boxes.T
    left, top, right, bottom = (
        (a, b, c, d), (b, a, d, c), (a, b, a + c, b + d), (b, a, b + d, a + c),
        (a - c / 2, b - d / 2, a + c / 2, b + d / 2),
    )[reading]  # fmt: skip
    scale = numpy.array([width, height, width, height]) if boxes.max() <= 1 else numpy.ones(4)
    return numpy.asarray(numpy.round(numpy.stack([left, top, right, bottom], 1) * scale), dtype=numpy.float64)


def _steep(across_x: Floats, across_y: Floats, box: Floats) -> float:
    """Mean change across the sides; 0 for what is not a box in the picture."""
    x1, y1, x2, y2 = (int(value) for value in box)
    height, width = len(across_x), across_y.shape[1]
    if not (0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height):
        return 0.0
    sides = [across_x[y1:y2, x - 1].mean() for x in (x1, x2) if 0 < x < width]
    sides += [across_y[y - 1, x1:x2].mean() for y in (y1, y2) if 0 < y < height]
    return float(numpy.mean(sides)) if sides else 0.0


# -- tables --


def box_formats(tables: list[Table]) -> Iterator[tuple[Difference, Table, Table]]:
    """Files whose boxes of one name mean something else than in another file, by the pictures that lie beside them."""
    pictures = [(table, array) for table in tables for _, array in table.pictures]
    named: dict[str, list[tuple[Table, Floats]]] = {}
    for table in tables:
        for name, array in table.arrays if pictures else ():
            if array.ndim == 2 and array.shape[1] == 4 and array.dtype.kind in "fiu":
                named.setdefault(name or kind_of(table.path), []).append((table, array.astype(numpy.float64)))
    found: dict[str, list[tuple[Table, BoxFormat]]] = {}
    for key, boxes in named.items():
        fits = [(table, _best(table, each, pictures)) for table, each in boxes[:MOST_FILES] if len(boxes) > 1]
        found[key] = [(table, each) for table, each in fits if each is not None]
    for key, files in found.items():
        evaluated = [pair for pair in files if split_of(pair[0].path) == "evaluation"]
        for table, other in files:
            first, usual = (evaluated or files)[0]
            if other.reading != usual.reading:
                here, there = (f"{each.reading} ({each.steep:.1f} against {each.others:.1f} in the next best reading)"
                               for each in (other, usual))  # fmt: skip
                yield Difference("boxes", key, here, there), table, first


def _best(table: Table, boxes: Floats, pictures: list[tuple[Table, NDArray[numpy.generic]]]) -> BoxFormat | None:
    """With the pictures of the same rows, or the ones that a column numbers."""
    found = []
    for other, array in pictures[:MOST_PICTURES]:
        orders = [c.numbers for c in table.columns if c.numbers is not None and _is_index(c.numbers, len(array))]
        if other.rows == table.rows and not any((each == numpy.arange(table.rows)).all() for each in orders):
            orders.append(numpy.arange(float(table.rows)))
        for order in orders[:2]:
            step = -(-len(boxes) // MOST_ROWS)
            fits = box_format(boxes[::step], array[order[::step].astype(int)])
            if fits is not None:
                found.append(fits)
    return max(found, key=lambda each: each.steep, default=None)


def _is_index(values: Floats, length: int) -> bool:
    inside = bool(numpy.isfinite(values).all()) and values.min() >= 0 and values.max() < length
    return inside and bool((values == numpy.round(values)).all()) and len(numpy.unique(values)) >= LEAST


# -- what the script does with them --

_WORDS: Final = re.compile(
    r"xywh|yxyx|yxhw|ltwh|tlwh|xyxy|coco|yolo|pascal|voc\b|box_convert|convert|format|swap|flip|transpose|rot90"
    r"|\broll\(|::\s*-1|\.T\b|permute",
    re.IGNORECASE,
)  # fmt: skip
JOINS: Final = frozenset(("cat", "concat", "concatenate", "stack", "hstack", "column_stack"))


def converts_boxes(paths: Iterable[str], texts: str) -> bool:
    """Whether anything in the script may bring boxes into another form. `texts`: of the modules and configurations."""
    return _WORDS.search(texts) is not None or any(_rearranges(source_of(path).tree) for path in sorted(paths))


def _rearranges(tree: ast.Module) -> bool:
    """Four names for four numbers, sums and differences that are put together or assigned, a list of the order."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Tuple, ast.List)):
            stored = isinstance(node.ctx, ast.Store)
            if len(node.elts) == 4 and (stored or _picks(node.elts)):
                return True
        elif isinstance(node, ast.Call) and _called(node.func) in JOINS:
            if any(isinstance(inner, ast.BinOp) and isinstance(inner.op, (ast.Add, ast.Sub)) and _slices(inner)
                   for inner in ast.walk(node)):  # fmt: skip
                return True
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Subscript) for target in targets) and _halves(node):
                return True
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _halves(node):
            return True
    return False


def _called(function: ast.expr) -> str:
    return ast.unparse(function).rsplit(".", 1)[-1]


def _picks(items: list[ast.expr]) -> bool:
    """[1, 0, 3, 2] or [box[1], box[0], ...], also with sums and differences."""
    if all(isinstance(item, ast.Constant) for item in items):
        values = {item.value for item in items if isinstance(item, ast.Constant)}
        return values == {0, 1, 2, 3}
    return sum(any(isinstance(inner, ast.Subscript) for inner in ast.walk(item)) for item in items) >= 2


def _slices(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Subscript) for inner in ast.walk(node))


def _halves(node: ast.AST) -> bool:
    """It reads or writes two or more parts of a box: `boxes[:, 2:] -= boxes[:, :2]`, `box[2] + box[0]`."""
    parts = [ast.unparse(inner.slice).strip("()") for inner in ast.walk(node) if isinstance(inner, ast.Subscript)]
    ends = [part for part in parts if re.fullmatch(r"(\.\.\., |:, )?(\d?:\d?|\d)", part) and re.search(r"\d", part)]
    return len(set(ends)) >= 2
