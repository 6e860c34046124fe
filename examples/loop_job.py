"""What the three loops beside this file share: 1,797 handwritten digits, a small network, the settings, and the order
of the samples.

    loop_with_zero_pieces.py    plain PyTorch, every part by hand
    loop_with_some_pieces.py    the loop by hand; accumulation, schedule and checkpoints are trueloop's
    loop_with_all_pieces.py     a recipe: trueloop's loop

All three learn the same, to the rounding of numbers; `tests/test_examples.py` holds them to it.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from trueloop.engine.sample_order import epoch_order

EPOCHS, BATCH, ACCUMULATE, LR, CLIP, SEED = 5, 64, 4, 3e-3, 1.0, 0
"""Each step learns from 64 samples, in four parts of 16."""
TRAIN, VALID = slice(0, 1197), slice(1197, 1797)


def digits(which: slice) -> TensorDataset:
    """Points from 0 to 16 become about -1 to 2."""
    found = load_digits()
    points = (torch.from_numpy(found.data).float() - 4.88) / 6.02
    shuffled = torch.randperm(len(points), generator=torch.Generator().manual_seed(0))[which]
    return TensorDataset(points[shuffled], torch.from_numpy(found.target).long()[shuffled])


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def order(epoch: int) -> Tensor:
    """A function of the epoch alone, so that a loop that was interrupted finds it again. Here it is the one that
    recipes use."""
    return epoch_order(TRAIN.stop - TRAIN.start, SEED, epoch)
