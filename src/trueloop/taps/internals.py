"""What we use of torch and Python that is not public, in one place: a new torch that moves one of these breaks here and
nowhere else."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final

import torch
import torch._dynamo.variables.nn_module as compiler_of_modules  # the first optimizer loads it anyway; it must see torch unpatched
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch._dynamo import utils as compiler_notes
from torch._dynamo.eval_frame import OptimizedModule, skip_code
from torch.jit import _builtins
from torch.optim import Optimizer
from torch.utils.data import default_collate
from torch.utils.data._utils import worker as loader_worker
from torch.utils.data.dataloader import _BaseDataLoaderIter as LoaderIterator

__all__ = [
    "UNSEEN",
    "BatchUnderWay",
    "LoaderIterator",
    "OptimizedModule",
    "batch_under_way",
    "become_worker",
    "compiler_listens",
    "compiler_said",
    "dispatch_modes",
    "forget_builtin",
    "forget_collective",
    "hide_from_compiler",
    "is_compiled",
    "is_shard",
    "is_transformed",
    "record_builtin",
    "saved_result",
    "show_collective",
    "show_compiler",
    "stacks_samples",
    "steps_running",
    "tracing_state",
]

UNSEEN: Final = "<trueloop, unseen like importlib._bootstrap>"
"""The file name of our wrappers' code. `warnings` passes over frames whose file name has these two words when it counts
a stacklevel, so a warning is shown at the line it would have been shown at."""

is_transformed: Final = torch._C._functorch.peek_interpreter_stack
"""Not None inside torch.func: vmap, grad, jvp ..."""
tracing_state: Final = torch._C._get_tracing_state
"""Not None inside torch.jit.trace."""
compiler_listens: Final = get_eval_frame_callback
"""Not None while torch.compile's frames run: then every Python function that is called may be compiled, ours too."""
dispatch_modes: Final = torch._C._len_torch_dispatch_stack
"""How many dispatch modes (fake tensors, flop counters) are active."""


def stacks_samples(iterator: Any) -> bool:
    """Does the loader behind this iterator stack single samples by PyTorch's own collate function?"""
    return (
        bool(getattr(iterator, "_auto_collation", False)) and getattr(iterator, "_collate_fn", None) is default_collate
    )


_NEXT: Final[CodeType] = LoaderIterator.__next__.__code__


@dataclass(frozen=True, slots=True)
class BatchUnderWay:
    """A batch that a loader is asked for and has not handed out yet."""

    loader: int
    number: int
    """The how-manieth of its pass, from 0."""
    dataset: Any
    workers: tuple[int, ...]
    """The processes that fetch it; empty: this one does."""


def batch_under_way(frame: FrameType) -> BatchUnderWay | None:
    """The batch that a frame waits for; None if it is none of a loader's."""
    iterator = frame.f_locals.get("self") if frame.f_code is _NEXT else None
    if iterator is None:
        return None
    workers = tuple(worker.pid for worker in getattr(iterator, "_workers", ()))
    return BatchUnderWay(
        id(iterator), getattr(iterator, "_num_yielded", 0), getattr(iterator, "_dataset", None), workers
    )


def is_shard(tensor: torch.Tensor) -> bool:
    """A DTensor: a piece of a tensor that lies on several ranks."""
    return hasattr(tensor, "_local_tensor") and hasattr(tensor, "device_mesh")


def become_worker(number: int, workers: int, seed: int, dataset: Any) -> None:
    """Let `get_worker_info` answer as in a worker process; for a copy of the process only."""
    loader_worker._worker_info = loader_worker.WorkerInfo(id=number, num_workers=workers, seed=seed, dataset=dataset)


def record_builtin(original: object, wrapper: object) -> None:
    """TorchScript knows torch.softmax by identity: let it know the wrapper as the same thing."""
    name = _builtins._find_builtin(original)  # type: ignore[no-untyped-call]
    if name is not None:
        _builtins._register_builtin(wrapper, name)


def saved_result(node: Any, name: str = "result") -> torch.Tensor | None:
    """A tensor that an operation keeps for its backward; None where there is none, or where taking it would run
    somebody's hook."""
    kept = getattr(node, f"_raw_saved_{name}", None)
    if kept is None or getattr(kept, "unpack_hook", kept) is not None:
        return None  # checkpointing would compute it anew
    try:
        value = getattr(node, f"_saved_{name}")
    except RuntimeError:  # freed, or written over: the backward will say so
        return None
    return value if isinstance(value, torch.Tensor) else None


def forget_builtin(wrapper: object) -> None:
    _builtins._get_builtin_table().pop(id(wrapper), None)  # type: ignore[no-untyped-call]


def hide_from_compiler(code: CodeType) -> None:
    """Never compile a frame of this code for itself. Called from compiled code it is inlined: its first question
    answers itself there."""
    skip_code(code)


def is_compiled(module: Any) -> bool:
    """Made by torch.compile(module), or compiled in place by module.compile()."""
    return isinstance(module, OptimizedModule) or module._compiled_call_impl is not None


def show_compiler(wrapper: Any) -> Any:
    """Tell the compiler that nn.Module.__call__ is still the usual one, so that it goes straight to `forward`; hands
    back what it knew."""
    known = getattr(compiler_of_modules, "unpatched_nn_module_call", None)
    setattr(compiler_of_modules, "unpatched_nn_module_call", wrapper)  # noqa: B010 - private, so the type checker does not know it
    return known


def compiler_said() -> tuple[int, list[tuple[str, list[traceback.FrameSummary]]], dict[CodeType, list[str]]]:
    """What torch.compile has noted in this process, or since it was reset: graphs made; graph breaks, with reason and
    stack (the innermost frame last); and for each function the guards that failed, one entry `3/1: reason` for each
    compiled version that did not fit."""
    graphs = compiler_notes.counters["stats"]["unique_graphs"] if "stats" in compiler_notes.counters else 0
    breaks = [
        (str(note.reason), list(note.user_stack)) for note in compiler_notes.graph_break_reasons if note.graph_break
    ]
    return graphs, breaks, {code: list(reasons) for code, reasons in compiler_notes.guard_failures.items()}


def steps_running() -> int:
    """How many calls of some optimizer's step are under way, the caller's included."""
    count = 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        count += frame.f_code is _STEP
        frame = frame.f_back
    return count


_STEP: Final = Optimizer.profile_hook_step(lambda: None).__code__
"""The frame that torch puts around every step, and calls the hooks from."""


def show_collective(original: Any, wrapper: Any) -> None:
    """The compiler knows dist.all_reduce by identity, and puts it into its graphs: let it know the wrapper as the same
    thing."""
    known = _known_collectives()
    if original in known:
        known[wrapper] = known[original]


def forget_collective(wrapper: Any) -> None:
    _known_collectives().pop(wrapper, None)


def _known_collectives() -> dict[Any, Any]:
    return getattr(sys.modules.get("torch.distributed._functional_collectives"), "traceable_collective_remaps", {})
