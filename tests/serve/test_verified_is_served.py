"""What was verified can be served: warmed up with a length that the model takes, and all its outputs by their names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.export.made import verification
from tests.serve.made import artifact
from trueloop.export.exporter import Array, FakeRunner
from trueloop.results.artifact import OWN, Artifact, Port
from trueloop.serve.batching import Batcher, Sample, blank_sample
from trueloop.serve.inputs import Inputs
from trueloop.serve.limits import Limits, Refused
from trueloop.serve.openapi import example, predict_operation

LETTERS = (Port("input", "int64", (None, None), (None, 40)),)


def only_long(rows: Array) -> list[Array]:
    """A convolution of width 16 takes no shorter rows."""
    if rows.shape[1] < 16:
        raise RuntimeError("Kernel size can't be greater than actual input size")
    return [np.zeros((len(rows), 3), np.float32)]


def served(
    made: Artifact, model: Callable[..., Sequence[Array]], samples: Sequence[Sample]
) -> tuple[BaseException | None, Any]:
    """Why it could not start, and what it answers or how it refuses."""

    async def main() -> tuple[BaseException | None, Any]:
        batcher = Batcher(made, lambda: FakeRunner(model), Limits(), lambda *_: None)
        started = asyncio.Event()
        batcher.start(started.set)
        await started.wait()
        try:
            if batcher.failure is not None:
                return batcher.failure, None
            return None, await batcher.submit(samples)
        except Refused as refused:
            return None, refused
        finally:
            batcher.stop()
            await asyncio.to_thread(batcher.join)

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("lengths", "length"), [((), 8), ((16, 32), 16), ((1, 5, 10), 10), ((1, 4), 4), ((1, 8, 20), 8), ((64,), 40)]
)
def test_the_warm_up_has_a_length_that_was_verified(lengths: tuple[int, ...], length: int) -> None:
    made = artifact("letters", inputs=LETTERS, verification=verification(lengths=lengths))
    assert blank_sample(made)[0].shape == (length,)
    assert np.shape(example(artifact("tensors"), Inputs(artifact("tensors"), Limits()))["left"]) == (2,)


def test_a_model_that_takes_long_rows_only_is_served_and_short_ones_are_the_callers_error() -> None:
    made = artifact("letters", inputs=LETTERS, verification=verification(lengths=(16, 32)))
    failure, answers = served(made, only_long, [(np.zeros(20, np.int64),)])
    assert failure is None
    assert len(answers) == 1
    failure, refused = served(made, only_long, [(np.zeros(5, np.int64),)])
    assert failure is None
    assert isinstance(refused, Refused)
    assert refused.status == 422
    assert "does not accept inputs of shape [5]: change their length" in str(refused.sentence)


HEADS = (Port("age", "float32", (None,)), Port("mean", "float32", (1,)), Port("kind", "float32", (None, 2)))


def heads(images: Array) -> list[Array]:
    ages = images.reshape(len(images), -1).mean(1).astype(np.float32)
    return [ages, ages.mean(keepdims=True), np.stack([ages, -ages], 1)]


def test_every_output_with_a_row_per_sample_is_delivered() -> None:
    made = artifact(outputs=HEADS, task=OWN)
    _, answers = served(made, heads, [(np.full((1, 3, 4), value, np.uint8),) for value in (7, 9)])
    assert [[np.asarray(each).tolist() for each in answer] for answer in answers] == [
        [7.0, [7.0, -7.0]],
        [9.0, [9.0, -9.0]],
    ]


def test_the_documentation_names_the_outputs() -> None:
    made = artifact(outputs=HEADS, task=OWN)
    said = str(predict_operation(made, Inputs(made, Limits()), keyed=False)["responses"]["200"])
    assert "The model's outputs by name: age, kind." in said
