"""torch.compile: compiled modules, its counters, how to keep it away from our wrappers.

Importing this file imports dynamo. The first optimizer does so anyway; and dynamo must see torch unpatched.
"""

import sys
import traceback
from types import CodeType
from typing import Any, Final

import torch
import torch._dynamo.variables.nn_module as module_variables
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch._dynamo import config, exc, utils
from torch._dynamo.eval_frame import OptimizedModule, skip_code

__all__ = ["OptimizedModule", "compile_counts", "compile_seconds", "compiler_callback", "compiler_notes"]
__all__ += ["forget_collective", "frames_compiled", "hide_from_compiler", "is_compiled", "is_compiler_error"]
__all__ += ["register_collective", "reset_compiler", "set_known_module_call", "set_recompile_limit"]

# OptimizedModule: what torch.compile makes of a module. 2.11+

compiler_callback: Final = (
    get_eval_frame_callback  # not None in torch.compile's frames: any called function may be compiled. 2.11+
)


def hide_from_compiler(code: CodeType) -> None:
    """Never compile a frame of this code. Compiled code still inlines it: `passes_by` is a constant there. 2.11+"""
    skip_code(code)


def is_compiled(module: Any) -> bool:
    """Is it the result of torch.compile(module), or compiled in place by module.compile()? 2.11+"""
    return isinstance(module, OptimizedModule) or getattr(module, "_compiled_call_impl", None) is not None


def is_compiler_error(error: BaseException) -> bool:
    """Did torch.compile raise it, and not the code that it compiles? 2.11+"""
    return isinstance(error, exc.TorchDynamoException)


def set_known_module_call(wrapper: Any) -> Any:
    """Makes the compiler accept a wrapper as the usual `nn.Module.__call__`, so that it still inlines `forward`;
    returns the function that it accepted before. 2.11+"""
    known = getattr(module_variables, "unpatched_nn_module_call", None)
    setattr(module_variables, "unpatched_nn_module_call", wrapper)  # noqa: B010 - the type checker does not know it
    return known


def reset_compiler() -> None:
    """Drops everything that was compiled, and the counters. 2.11+"""
    torch.compiler.reset()
    utils.counters.clear()


def frames_compiled() -> int:
    """Functions that torch.compile has tried to compile since the last reset. 2.11+"""
    return sum(utils.counters.get("frames", {}).values())


def compile_counts() -> tuple[int, int]:
    """Graphs compiled and graph breaks since the last reset. 2.11+"""
    return int(utils.counters["stats"]["unique_graphs"]), sum(utils.counters["graph_break"].values())


def compiler_notes() -> tuple[int, list[tuple[str, list[traceback.FrameSummary]]], dict[CodeType, list[str]]]:
    """What torch.compile has recorded: the number of graphs; graph breaks with reason and stack, innermost frame last;
    and for each function its failed guards, one entry `3/1: reason` for each compiled version that did not fit.
    2.11+"""
    graphs = utils.counters["stats"]["unique_graphs"] if "stats" in utils.counters else 0
    breaks = [(str(note.reason), list(note.user_stack)) for note in utils.graph_break_reasons if note.graph_break]
    return graphs, breaks, {code: list(reasons) for code, reasons in utils.guard_failures.items()}


def compile_seconds() -> float:
    """The time spent compiling, by the outermost of the compiler's own timers. 2.11+"""
    times: dict[str, list[float]] = getattr(utils, "compilation_time_metrics", {})
    outer = next((name for name in ("_compile.compile_inner", "entire_frame_compile") if name in times), None)
    return sum(times[outer]) if outer else 0.0


def set_recompile_limit(limit: int) -> None:
    """Versions of one function that may be compiled before torch.compile gives up on it. 2.11+"""
    config.recompile_limit = limit


def register_collective(original: Any, wrapper: Any) -> None:
    """The compiler recognizes `dist.all_reduce` by identity: make it treat the wrapper as the same function. 2.11+"""
    known = _known_collectives()
    if original in known:
        known[wrapper] = known[original]


def forget_collective(wrapper: Any) -> None:
    """Undoes `register_collective`. 2.11+"""
    _known_collectives().pop(wrapper, None)


def _known_collectives() -> dict[Any, Any]:
    return getattr(sys.modules.get("torch.distributed._functional_collectives"), "traceable_collective_remaps", {})
