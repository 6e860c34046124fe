"""Inductor, stores, the profiler and TorchScript."""

from __future__ import annotations

import inspect
import warnings
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch.profiler import profile

from trueloop.torch_private.profiler import (
    DeviceType,
    dump_memory_snapshot,
    overload_names,
    profiler_enabled,
    record_memory_history,
)
from trueloop.torch_private.torchscript import copy_builtin, forget_builtin


def test_trace_graph_and_compile_graph() -> None:
    from trueloop.torch_private.inductor import compile_graph, trace_graph

    x = torch.tensor([1.0, 2.0])
    graph = trace_graph(lambda x: (x * 2 + 1,), [x])
    with torch.no_grad():
        values = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
        (result,) = compile_graph(graph, values)([x])
    assert torch.equal(result, x * 2 + 1)


def test_aoti_writes_a_package_and_loads_it(tmp_path: Path) -> None:
    from trueloop.torch_private.inductor import aoti_load_package, compile_package

    model, x = torch.nn.Linear(2, 1).eval(), torch.zeros(1, 2)
    file = tmp_path / "model.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about itself
        compile_package(torch.export.export(model, (x,)), file, "g++")
    assert torch.allclose(aoti_load_package(str(file))(x), model(x))


def test_stores(tmp_path: Path) -> None:
    from trueloop.torch_private.distributed import PrefixStore, Store, TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=10), wait_for_workers=False)
    assert isinstance(store, Store)
    PrefixStore("a", store).set("key", "1")
    assert store.get("a/key") == b"1"


def test_profiler_enabled_and_device_type() -> None:
    assert not profiler_enabled()
    with profile() as recorded:
        assert profiler_enabled()
        torch.zeros(2).add(1)
    assert {event.device_type for event in recorded.events() or ()} == {DeviceType.CPU}


def test_a_profile_has_the_names_of_overloads() -> None:
    x = torch.zeros(2)
    with profile(experimental_config=overload_names(), acc_events=True) as recorded:
        torch.add(x, x)
    assert ("aten::add", "Tensor") in {(event.name, event.overload_name) for event in recorded.events() or ()}


@pytest.mark.parametrize("name", ["_record_memory_history", "_dump_snapshot"])
def test_memory_snapshots_exist(name: str) -> None:
    assert callable(getattr(torch.cuda.memory, name))
    assert "enabled" in inspect.signature(torch.cuda.memory._record_memory_history).parameters


@pytest.mark.gpu
def test_memory_history(tmp_path: Path) -> None:
    record_memory_history(True)
    torch.zeros(2, device="cuda")
    dump_memory_snapshot(tmp_path / "snapshot.pickle")
    record_memory_history(False)
    assert (tmp_path / "snapshot.pickle").stat().st_size > 0


def test_torchscript_treats_a_wrapper_as_its_builtin() -> None:
    from torch.jit import _builtins

    def softmax() -> None: ...

    copy_builtin(torch.softmax, softmax)
    table = _builtins._get_builtin_table()  # type: ignore[no-untyped-call]
    assert table[id(softmax)] == table[id(torch.softmax)] == "aten::softmax"
    forget_builtin(softmax)
    assert id(softmax) not in table
