"""All pieces: a recipe. The loop is trueloop's, and one can read it: src/trueloop/engine/train.py.

trueloop train examples/loop_with_all_pieces.py
python examples/loop_with_all_pieces.py
"""

from __future__ import annotations

from loop_job import ACCUMULATE, BATCH, CLIP, EPOCHS, LR, SEED, TRAIN, VALID, digits, network

import trueloop
from trueloop.hook import Row
from trueloop.recipe.recipe import DataRequest
from trueloop.track.metrics import read_rows


def read(request: DataRequest) -> trueloop.Splits:
    return trueloop.Splits(
        train=trueloop.Tensors(*digits(TRAIN).tensors), valid=trueloop.Tensors(*digits(VALID).tensors)
    )


recipe = trueloop.Recipe(
    name="loop-with-all-pieces",
    model=network,
    data=read,
    epochs=EPOCHS,
    batch=BATCH,
    accumulate=ACCUMULATE,
    optimizer="adam",
    lr=LR,
    schedule="cosine",
    clip=CLIP,
    seed=SEED,
    log_every=19,  # steps of an epoch
)


def main(folder: str = "runs") -> list[float]:
    """The loss of each epoch."""
    trained = trueloop.train(recipe, runs=folder)
    rows: list[Row] = [row for row in read_rows(trained.folder) if row.kind == "train"]
    return [row.values["loss"] for row in rows]


if __name__ == "__main__":
    main()
