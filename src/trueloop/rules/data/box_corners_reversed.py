"""DAT150 box-corners-reversed: a part of the training boxes has its left corner to the right of the right one.

What it sees
------------
Batches of loaders hold rows of four numbers. In evaluation the third number is larger than the first, and the fourth
than the second, in every row: two corners of a box. In training, a part of the rows has one of these pairs the other
way round. The sizes are the same without their sign, and none is near zero: these boxes were mirrored.

Why it hurts
------------
A flip that mirrors the coordinates of both corners must also exchange them. Otherwise the box has a negative width: the
regression is asked for two contradicting forms of the same box, its overlap with any prediction is zero, and matching
and non-maximum suppression drop it.

Evidence
--------
The number of training boxes and how many are reversed, the median size with each sign, and the boxes of the evaluation.

Use instead
-----------
    boxes[:, [0, 2]] = width - boxes[:, [2, 0]]         # mirrored, and exchanged

When it is fine
---------------
Not reported: rows of four numbers that are not ordered in every evaluated row (center and size, other features), pairs
that are reversed in all training rows or in fewer than 5 %, differences that come near zero (features of any sign),
and fewer than 200 training rows or 100 evaluated ones.
"""

from typing import Final

from trueloop.event import BoxCorners, BoxesCompared
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["BoxCornersReversed"]

TRAINING_ROWS: Final = 200
EVALUATION_ROWS: Final = 100
SHARE: Final = (0.05, 0.95)
GAP: Final = 0.02  # smallest size over the median one: sizes of any sign come closer to zero in so many rows
SAME_SIZE: Final = 0.25  # difference of the medians, of mirrored boxes and others


class BoxCornersReversed(Rule, code="DAT150", severity=Severity.ERROR):
    not_applicable = "no loader gave rows of four numbers in training and in evaluation"

    def on_boxes_compared(self, event: BoxesCompared) -> Findings:
        enough = event.training[0].rows >= TRAINING_ROWS and event.evaluation[0].rows >= EVALUATION_ROWS
        if not enough or any(axis.reversed or axis.smallest <= 0 for axis in event.evaluation):
            return
        mirrored = [_is_mirrored(axis) for axis in event.training]
        if not any(mirrored) or any(a.reversed and not m for a, m in zip(event.training, mirrored, strict=True)):
            return
        number = mirrored.index(True)
        axis, name = event.training[number], ("x2 < x1", "y2 < y1")[number]
        yield self.finding(
            event,
            f"{axis.reversed:,} of {axis.rows:,} training boxes have their corners in the wrong order ({name}), with "
            f"the same sizes as the others; none of the {event.evaluation[0].rows:,} evaluated boxes has.",
            fix="Exchange the corners where a box is mirrored: `box[[0, 2]] = width - box[[2, 0]]`.",
            evidence={"boxes": axis.rows, "reversed": axis.reversed, "median_size": axis.size,
                      "median_reversed_size": axis.reversed_size, "evaluated": event.evaluation[0].rows},
        )  # fmt: skip


def _is_mirrored(axis: BoxCorners) -> bool:
    share, size = axis.reversed / axis.rows, max(axis.size, axis.reversed_size)
    alike = abs(axis.size - axis.reversed_size) <= SAME_SIZE * size
    return SHARE[0] <= share <= SHARE[1] and alike and axis.smallest >= GAP * size
