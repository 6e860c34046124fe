"""Boxes in different forms, by the edges in their pictures; and boxes that only have different shapes."""

from __future__ import annotations

import ast
from collections.abc import Callable

import numpy
import pytest
from numpy.typing import NDArray

from trueloop.measure import box_formats as measured
from trueloop.measure.box_formats import box_format, box_formats
from trueloop.measure.tables import Table, Values

Floats = NDArray[numpy.float64]
SIZE = 24


def scenes(seed: int, *, upright: bool = False, contrast: float = 1.0) -> tuple[Floats, Floats]:
    """Pictures and their boxes x1, y1, x2, y2."""
    draw = numpy.random.default_rng(seed)
    pictures, boxes = draw.normal(0, 0.2, (200, SIZE, SIZE)), numpy.zeros((200, 4))
    for row in range(200):
        w, h = sorted((int(draw.integers(7, 12)), int(draw.integers(3, 7))), reverse=not upright)
        x, y = int(draw.integers(0, SIZE - w)), int(draw.integers(0, SIZE - h))
        pictures[row, y : y + h, x : x + w] += contrast
        boxes[row] = x, y, x + w, y + h
    return pictures, boxes


def table(path: str, pictures: Floats, boxes: Floats) -> Table:
    rows = Values("row", numpy.arange(float(len(boxes))))
    return Table(path, (rows,), len(boxes), True, pictures=(("x", pictures),), arrays=(("box", boxes),))


FORMS: dict[str, Callable[[Floats], Floats]] = {
    "x1, y1, x2, y2": lambda b: b,
    "y1, x1, y2, x2": lambda b: b[:, [1, 0, 3, 2]],
    "x, y, width, height": lambda b: numpy.concatenate([b[:, :2], b[:, 2:] - b[:, :2]], 1),
    "center x, center y, width, height": lambda b: (
        numpy.concatenate([b[:, :2] + b[:, 2:], 2 * (b[:, 2:] - b[:, :2])], 1) / 2
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1, SIZE])
def test_the_reading_that_fits_the_pictures(form: str, scale: int) -> None:
    pictures, boxes = scenes(0)
    found = box_format(FORMS[form](boxes) / scale, pictures)
    assert found is not None
    assert found.reading == form


def test_two_files_in_two_forms() -> None:
    first, second = scenes(0), scenes(1)
    turned = table("b.npz", second[0], FORMS["y1, x1, y2, x2"](second[1]))
    ((found, odd, usual),) = box_formats([table("test.npz", *first), turned])
    assert (found.kind, found.column, odd.path, usual.path) == ("boxes", "box", "b.npz", "test.npz")


def test_upright_and_lying_boxes_have_one_form() -> None:
    assert not list(box_formats([table("a.npz", *scenes(0)), table("b.npz", *scenes(1, upright=True))]))


def test_pictures_that_are_transposed_with_their_boxes() -> None:
    pictures, boxes = scenes(1)
    turned = table("b.npz", pictures.swapaxes(1, 2), FORMS["y1, x1, y2, x2"](boxes))
    assert not list(box_formats([table("a.npz", *scenes(0)), turned]))


def test_pictures_that_show_no_edges_say_nothing() -> None:
    pictures, boxes = scenes(1, contrast=0.0)
    assert box_format(boxes, pictures) is None
    assert not list(box_formats([table("a.npz", *scenes(0)), table("b.npz", pictures, boxes[:, [1, 0, 3, 2]])]))


@pytest.mark.parametrize(
    "source",
    [
        "x, y, w, h = box",
        "for y1, x1, y2, x2 in boxes: pass",
        "boxes = boxes[:, [1, 0, 3, 2]]",
        "boxes[:, 2:] += boxes[:, :2]",
        "box[2] -= box[0]",
        "b = torch.cat([a[:, :2], a[:, 2:] - a[:, :2]], 1)",
        "b = [a[1], a[0], a[3], a[2]]",
        "corners = a[:, :2] + a[:, 2:]",
    ],
)
def test_code_that_brings_boxes_into_another_form(source: str) -> None:
    assert measured._rearranges(ast.parse(source))


def test_code_that_measures_an_overlap() -> None:
    source = """
low, high = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
area = lambda t: (t[:, 2:] - t[:, :2]).clamp(min=0).prod(1)
inter = (high - low).clamp(min=0).prod(1)
print(inter / (area(a) + area(b) - inter))
"""
    assert not measured._rearranges(ast.parse(source))
