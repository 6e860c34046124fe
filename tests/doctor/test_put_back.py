"""When a watch has ended, torch is what it was: the same objects under every name that we touch, and no hook left."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import torch
import torch._dynamo.variables.nn_module as compiler_of_modules
from torch import Tensor, nn
from torch.jit import _builtins
from torch.nn import functional, utils
from torch.nn.modules import module as module_file
from torch.nn.utils import clip_grad
from torch.optim import Optimizer, lr_scheduler
from torch.optim import optimizer as optimizer_file
from torch.utils import data
from torch.utils.data import dataloader

from tests.conftest import in_child
from trueloop.doctor.watch import Watch

OWNERS: tuple[Any, ...] = (
    *(
        torch,
        Tensor,
        functional,
        nn.Module,
        utils,
        clip_grad,
        torch.autograd,
        Optimizer,
        data.DataLoader,
        torch.amp.GradScaler,
    ),
    *(torch.distributed, torch.distributed.distributed_c10d, nn.parallel.DistributedDataParallel),
    *(dataloader._BaseDataLoaderIter, compiler_of_modules, traceback.TracebackException, threading, traceback),
    *(value for value in vars(lr_scheduler).values() if isinstance(value, type)),
    *(value for value in vars(nn).values() if isinstance(value, type)),
)


def _hooks() -> Iterator[tuple[str, int]]:
    for file in (module_file, optimizer_file):
        yield from (
            (name, len(value))
            for name, value in vars(file).items()
            if name.startswith("_global_") and isinstance(value, dict)
        )


def _all_of_torch() -> dict[str, object]:
    names = {
        f"{owner.__name__}.{name}": value
        for owner in OWNERS
        for name, value in vars(owner).items()
        if name != "__annotations__"
    }
    return {
        **names,
        "hooks": dict(_hooks()),
        "builtins": dict(_builtins._get_builtin_table()),  # type: ignore[no-untyped-call]
        "excepthook": sys.excepthook,
    }


def test_torch_is_put_back_exactly() -> None:
    def work() -> tuple[list[str], list[str]]:
        before = _all_of_torch()
        watch = Watch(script="train.py").start()
        during = _all_of_torch()
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            torch.autograd.backward(functional.mse_loss(model(torch.ones(3, 2)), torch.zeros(3, 2)))
            optimizer.step()
        watch.stop()
        after = _all_of_torch()
        touched = [name for name in before if during[name] is not before[name] and during[name] != before[name]]
        left = [name for name in before.keys() | after.keys() if not _same(before.get(name), after.get(name))]
        return touched, left

    touched, left = in_child(work)
    assert {"Module.__call__", "torch.nn.functional.cross_entropy", "DataLoader.__iter__", "hooks"} <= set(touched)
    assert left == []


def _same(before: object, after: object) -> bool:
    return before is after or (isinstance(before, (dict, int, str, float, bool)) and before == after)


def test_what_somebody_wrapped_after_us_is_left_to_them() -> None:
    def work() -> tuple[bool, float, float]:
        watch = Watch(script="train.py").start()
        ours = functional.cross_entropy
        functional.cross_entropy = theirs = lambda *args, **kwargs: ours(*args, **kwargs) * 2
        watch.stop()
        scores, target = torch.tensor([[1.0, 2.0]]), torch.tensor([1])
        return (
            functional.cross_entropy is theirs,
            functional.cross_entropy(scores, target).item(),
            ours(scores, target).item(),
        )

    kept, doubled, once = in_child(work)
    assert kept
    assert doubled == 2 * once


def test_a_child_that_is_forked_during_a_watch_is_not_watched(tmp_path: Any) -> None:
    def work() -> int:
        watch = Watch(script="train.py").start()
        model = nn.Linear(2, 2)

        def call() -> int:
            for _ in range(3):
                model(torch.ones(1, 2))
            return watch._tally.steps + len(watch._tally.models)

        assert in_child(call) == 0
        return call()

    assert in_child(work) > 0
