"""Read by Python at start-up, through PYTHONPATH, in the plain and in the checked run alike: it changes surroundings,
never a script.

- torchvision beside a CPU build of torch misses compiled operators: two are declared, so that the import goes through.
- torchvision compares data files with published checksums; ours are cut short or made up, so only their presence is
asked for.
- Every script is seeded, so that two runs of it can be compared.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import random
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

SEED = 20


def _declare_missing_operators(_: ModuleType) -> None:
    torch: Any = importlib.import_module("torch")
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)


def _trust_files(module: ModuleType) -> None:
    vars(module)["check_integrity"] = lambda path, *_: os.path.isfile(path)


def _seed_torch(module: ModuleType) -> None:
    module.manual_seed(SEED)


def _seed_numpy(module: ModuleType) -> None:
    module.random.seed(SEED)


def _seed_environments(module: ModuleType) -> None:
    """An environment that is reset without a seed takes one from the system."""
    fresh = module.np_random
    vars(module)["np_random"] = lambda seed=None: fresh(SEED if seed is None else seed)


def _do_nothing(_: ModuleType) -> None:
    pass


_kept: list[object] = []
BEFORE: dict[str, Callable[[ModuleType], None]] = {"torchvision": _declare_missing_operators}
AFTER: dict[str, Callable[[ModuleType], None]] = {
    "torchvision.datasets.utils": _trust_files,
    "torch": _seed_torch,
    "numpy": _seed_numpy,
    "gymnasium.utils.seeding": _seed_environments,
}


class Finder:
    """Finds a module as Python would, and acts once before or after it is loaded."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name not in BEFORE and name not in AFTER:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_act(module: ModuleType) -> None:
                BEFORE.pop(name, _do_nothing)(module)
                execute(module)
                AFTER.pop(name, _do_nothing)(module)

            vars(spec.loader)["exec_module"] = execute_and_act
        return spec


random.seed(SEED)
sys.meta_path.insert(0, Finder())
