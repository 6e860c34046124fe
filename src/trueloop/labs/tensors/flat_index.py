"""flat-index: Can you compute, without torch, where the element [i, j, k] lies in memory?

The place of an element is the offset plus the sum of index times stride. The strides of a fresh tensor follow from its
shape: the last dimension has stride 1, every other one the product of the sizes behind it. Kernels in Triton and CUDA
begin with this line of arithmetic, and most of their bugs are in it.

Exercise: the three functions that a kernel needs, checked on shapes with sizes of 0 and 1, on transposed and sliced
tensors.
"""

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page

__all__ = ["LAB"]


def read(x: Tensor, index: Sequence[int]) -> float:
    """x[index], from the flat storage: what indexing does."""
    place = x.storage_offset()
    for at, stride in zip(index, x.stride(), strict=True):
        place += at * stride
    return torch.tensor([], dtype=x.dtype).set_(x.untyped_storage())[place].item()


def views() -> dict[str, Tensor]:
    x = torch.arange(120.0).view(4, 5, 6)
    return {"x": x, "x.permute(2, 0, 1)": x.permute(2, 0, 1), "x[1:, ::2, 3]": x[1:, ::2, 3], "x[2]": x[2]}


def measure() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for text, x in views().items():
        indices = list(product(*map(range, x.shape)))
        found[text] = {"elements": len(indices), "right": sum(read(x, each) == x[each].item() for each in indices)}
    return found


def answer(page: Page, measured: dict[str, dict[str, int]]) -> None:
    rows = [
        (text, str(tuple(x.shape)), str(x.stride()), int(x.storage_offset()), measured[text]["elements"])
        for text, x in views().items()
    ]
    page.table("Every element, read from flat memory", ("view", "shape", "strides", "offset", "elements"), rows)
    right = sum(each["right"] for each in measured.values())
    total = sum(each["elements"] for each in measured.values())
    page.says(f"offset + sum(index * stride) found {right} of {total} elements, in every view.", right == total > 0)


SKELETON = '''"""Three functions about flat memory, without torch: shapes, strides and indices are tuples of integers.

    strides_of((4, 5, 6))                  -> (30, 6, 1)         strides of a contiguous tensor
    flat_index((1, 2, 3), (30, 6, 1), 0)   -> 45                 where the element lies; the last is the offset
    index_of(45, (4, 5, 6))                -> (1, 2, 3)          the way back, for a contiguous tensor

A shape may be (), and sizes may be 0 or 1: look up which stride torch gives there, with
`torch.empty(2, 0, 3).stride()`.

    trueloop lab flat-index THIS_FILE.py
"""


def strides_of(shape):
    raise NotImplementedError("write strides_of")


def flat_index(index, strides, offset):
    raise NotImplementedError("write flat_index")


def index_of(flat, shape):
    raise NotImplementedError("write index_of")
'''


def check(attempt: Attempt) -> None:
    strides_of, flat_index, index_of = map(attempt.get, ("strides_of", "flat_index", "index_of"))
    ordinary = [(4, 5, 6), (7,), (2, 3, 4, 5), (1, 3, 1)]
    for shape in (*ordinary, (), (2, 0, 3)):
        wanted, got = torch.empty(shape).stride(), tuple(strides_of(shape))
        last = "go from the last dimension to the first, and multiply the sizes behind"
        special = "a size of 0 counts as 1 in the product; a shape () has no strides"
        hint = last if shape in ordinary else special
        attempt.expect(f"strides_of({shape}) is {wanted}", got == wanted, hint, f"{got}")
    for text, x in views().items():
        places = {int(flat_index(each, x.stride(), int(x.storage_offset()))) for each in product(*map(range, x.shape))}
        values = {int(value) for value in x.flatten().tolist()}  # the value of an element is its place
        hint = "each index times its own stride, and the offset once"
        attempt.expect(f"flat_index finds the elements of {text}", places == values, hint)
    for shape in ordinary:
        indices = list(product(*map(range, shape)))
        back = [tuple(index_of(flat, shape)) for flat in range(len(indices))]
        hint = "what is left after the whole rows? divmod by the strides, first dimension first"
        attempt.expect(f"index_of gives all indices of {shape} in order", back == indices, hint)


LAB = Lab(code=(read,), measure=measure, answer=answer, exercise=Exercise(SKELETON, check))
