"""Private parts of torch.compile."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import config

from trueloop.torch_private.compiler import (
    OptimizedModule,
    compile_counts,
    compile_seconds,
    compiler_callback,
    compiler_notes,
    forget_collective,
    frames_compiled,
    hide_from_compiler,
    is_compiled,
    is_compiler_error,
    register_collective,
    reset_compiler,
    set_known_module_call,
    set_recompile_limit,
)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    reset_compiler()
    yield
    reset_compiler()


def _broken_in_two(x: Tensor) -> Tensor:
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def test_counts_notes_and_seconds() -> None:
    assert not frames_compiled()
    torch.compile(_broken_in_two, backend="eager")(torch.zeros(2))
    assert frames_compiled()
    graphs, breaks = compile_counts()
    assert (graphs, breaks) == (2, 1)
    graphs, reasons, _ = compiler_notes()
    assert graphs == 2
    assert reasons[-1][1][-1].name == "_broken_in_two"
    assert compile_seconds() > 0
    reset_compiler()
    assert compile_counts() == (0, 0)
    assert not frames_compiled()


def test_failed_guards_are_noted_by_function() -> None:
    def scaled(x: Tensor, factor: float) -> Tensor:
        return x * len(str(factor))

    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    compiled(torch.zeros(2), 1.0)
    compiled(torch.zeros(3), 1.0)
    assert scaled.__code__ in compiler_notes()[2]


def test_compiler_callback_is_set_while_compiled_frames_run() -> None:
    seen: list[bool] = []

    def look() -> None:
        torch._dynamo.graph_break()
        seen.append(compiler_callback() is not None)

    def called(x: Tensor) -> Tensor:
        x = x + 1
        look()
        return x

    hide_from_compiler(look.__code__)
    torch.compile(called, backend="eager")(torch.zeros(1))
    assert seen == [True]
    assert compiler_callback() is None


def test_a_hidden_function_is_not_compiled_for_itself() -> None:
    def plain(x: Tensor) -> Tensor:
        return x + 1

    hide_from_compiler(plain.__code__)
    torch.compile(plain, backend="eager")(torch.zeros(1))
    assert compile_counts()[0] == 0


def test_is_compiled() -> None:
    layer = nn.Linear(1, 1)
    assert not is_compiled(layer)
    assert is_compiled(torch.compile(layer, backend="eager"))
    assert isinstance(torch.compile(layer, backend="eager"), OptimizedModule)
    layer.compile(backend="eager")
    assert is_compiled(layer)


def test_is_compiler_error() -> None:
    with pytest.raises(Exception, match="graph break") as raised:
        torch.compile(_broken_in_two, backend="eager", fullgraph=True)(torch.zeros(2))
    assert is_compiler_error(raised.value)
    assert not is_compiler_error(ValueError("graph break"))


def test_set_known_module_call_returns_the_function_known_before() -> None:
    known = set_known_module_call(nn.Linear.__call__)
    try:
        assert known is nn.Module.__call__
    finally:
        assert set_known_module_call(known) is nn.Linear.__call__


def test_set_recompile_limit() -> None:
    before = config.recompile_limit
    try:
        set_recompile_limit(before + 1)
        assert config.recompile_limit == before + 1
    finally:
        set_recompile_limit(before)


def test_collectives_are_known_by_identity() -> None:
    import torch.distributed as dist

    table: dict[Any, Any] = sys.modules["torch.distributed._functional_collectives"].traceable_collective_remaps

    def wrapper() -> None: ...

    register_collective(dist.all_reduce, wrapper)
    assert table[wrapper] is table[dist.all_reduce]
    forget_collective(wrapper)
    assert wrapper not in table
