"""Memory that ran out: how much was asked for, where, and what holds the rest."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_a_tensor_that_is_too_large(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(4, 4)
        losses = [model(torch.zeros(2, 4)).sum() for _ in range(20)]
        x = torch.zeros(1000, 100)
        huge = torch.empty(10**15)  # crash
        """)
    assert told.said.kind == "memory"
    assert (
        f"train.py:{told.at('# crash')} asked for 3,638 TiB, but cpu did not have that much left" in told.said.message
    )
    assert "`x` float32 [1000, 100] 391 KiB" in told.details
    assert "Held on cpu: parameters " in told.details
    assert "`losses` is a list of 20 tensors that each keep the graph" in told.details
    assert "losses.append(loss.item())" in told.said.fix
    assert told.line == told.at("# crash")


def test_inside_a_model_the_batch_is_named(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x).repeat(1, 10**14)  # crash
        Net()(torch.zeros(64, 4))
        """)
    assert "Halve the batch (now 64)" in told.said.fix
    assert told.line == told.at("# crash")


def test_gradients_and_optimizer_state_are_counted(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(64, 64)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.zeros(2, 64)).sum().backward()
        optimizer.step()
        torch.empty(10**15)
        """)
    assert "gradients 16.2 KiB" in told.details
    assert "optimizer state 32.5 KiB" in told.details


def test_tensors_that_stand_for_others_hold_nothing(crash: Callable[[str], Crash]) -> None:
    """torch's compiler and exporter leave such behind; their sizes are no numbers."""
    told = crash("""
        from torch.export import Dim, export
        program = export(nn.Linear(4, 4), (torch.zeros(3, 4),), dynamic_shapes=({0: Dim("batch")},))
        stands_for = [node.meta["val"] for node in program.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)]
        x = torch.zeros(1000, 100)
        torch.empty(10**15)
        """)  # noqa: E501
    assert "`x` float32 [1000, 100] 391 KiB" in told.details
    assert "Held on cpu: " in told.details


def test_pythons_and_numpys_own(crash: Callable[[str], Crash]) -> None:
    assert "asked for memory" in crash("x = bytearray(10**16)").said.message
    assert "asked for 72,8" in crash("import numpy as np\nx = np.zeros((10**8, 10**8))").said.message


GPU = """
space = {}
exec(compile('''
import torch
def op(*tensors):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.60 GiB of which "
        "1.20 GiB is free. Including non-PyTorch memory, this process has 22.00 GiB memory in use.")
''', "/opt/site-packages/fake.py", "exec"), space)
class Net(nn.Module):
    def forward(self, x):
        return space["op"](x)
Net()(torch.zeros(128, 3))
"""  # noqa: E501


def test_the_words_of_a_gpu(crash: Callable[[str], Crash]) -> None:
    told = crash(GPU)
    assert (
        "asked for 2.5 GiB, but cuda did not have that much left of its 23.60 GiB (1.20 GiB were free)"
        in told.said.message
    )
    assert "halve the batch (now 128)" in told.said.fix
    assert "torch.autocast" in told.said.fix
