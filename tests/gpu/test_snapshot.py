"""A snapshot from a CUDA device: what the training does next does not change it, and it arrives whole."""

from __future__ import annotations

import pytest
import torch

from tests.torture.bits import differences
from trueloop.checkpoint import snapshot as part
from trueloop.checkpoint.snapshot import Snapshot

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize("room", [0.5, 0.0], ids=["copied on the device first", "without room for a copy"])
def test_later_steps_do_not_change_a_snapshot(room: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "ROOM", room)
    tensors = {str(number): torch.randn(1024, 1024, device="cuda") for number in range(32)}
    tensors["laid out otherwise"] = torch.randn(8, 16, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    tensors["empty"], tensors["one"] = torch.zeros(0, 3, device="cuda"), torch.tensor(3.0, device="cuda")
    expected = {name: tensor.cpu() for name, tensor in tensors.items()}
    for _ in range(3):
        snapshot = Snapshot()
        copies = snapshot.of(tensors, "x")
        snapshot.send()
        for tensor in tensors.values():
            tensor.add_(1)  # the next step, while the copies travel
        snapshot.wait()
        assert not list(differences(expected, copies))
        assert copies["laid out otherwise"].is_contiguous(memory_format=torch.channels_last)
        expected = {name: tensor.cpu() for name, tensor in tensors.items()}


def test_random_states_of_the_device_come_back() -> None:
    from trueloop.measure.randomness import fence, restore_states, take_states

    torch.cuda.manual_seed(3)
    states = take_states()
    drawn = torch.rand(4, device="cuda")
    with fence(7):
        torch.rand(9, device="cuda")
    more = torch.rand(4, device="cuda")
    restore_states(states)
    assert torch.equal(torch.rand(4, device="cuda"), drawn)
    assert torch.equal(torch.rand(4, device="cuda"), more)
