"""Private parts of nn.Module."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trueloop.torch_private import modules
from trueloop.torch_private.modules import (
    BUFFERS,
    CALL_FRAMES,
    COMPILED_CALL,
    EXTRA_STATE,
    FORWARD_HOOKS,
    HOOKS,
    LOAD_FRAME,
    MEMBERS,
    WRAPPED_MODULE,
    has_forward_hooks,
    is_compiled_in_place,
    is_initialized,
    own_buffers,
    own_modules,
    own_parameters,
)


@pytest.mark.parametrize(
    ("base", "members", "others"),
    [
        ("BatchNorm", (nn.BatchNorm1d(2), nn.BatchNorm3d(2), nn.SyncBatchNorm(2)), (nn.InstanceNorm1d(2),)),
        ("NormBase", (nn.BatchNorm2d(2), nn.InstanceNorm1d(2)), (nn.LayerNorm(2), nn.GroupNorm(1, 2))),
        ("ConvNd", (nn.Conv1d(1, 1, 1), nn.Conv3d(1, 1, 1), nn.ConvTranspose2d(1, 1, 1)), (nn.Linear(1, 1),)),
        ("ConvTransposeNd", (nn.ConvTranspose1d(1, 1, 1), nn.ConvTranspose2d(1, 1, 1)), (nn.Conv1d(1, 1, 1),)),
        ("DropoutNd", (nn.Dropout(), nn.Dropout2d(), nn.AlphaDropout()), (nn.ReLU(),)),
        ("Loss", (nn.MSELoss(), nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss()), (nn.ReLU(),)),
    ],
)  # fmt: skip
def test_base_classes(base: str, members: tuple[nn.Module, ...], others: tuple[nn.Module, ...]) -> None:
    kind = getattr(modules, base)
    assert all(isinstance(member, kind) for member in members)
    assert not any(isinstance(other, kind) for other in others)


def test_own_members() -> None:
    layer = nn.BatchNorm1d(2)
    assert set(own_parameters(layer)) == {"weight", "bias"}
    assert set(own_buffers(layer)) == {"running_mean", "running_var", "num_batches_tracked"}
    assert list(own_modules(nn.Sequential(layer, layer))) == ["0", "1"]


def test_every_attribute_we_name_exists() -> None:
    attributes = vars(nn.Module())
    assert {*MEMBERS, *HOOKS} <= set(attributes)
    assert hasattr(nn.Module, COMPILED_CALL)
    assert hasattr(nn.Module, modules.APPLY)
    assert hasattr(nn.Module, LOAD_FRAME)
    assert hasattr(nn.parallel.DistributedDataParallel, modules.SYNC_BUFFERS)


def test_buffers_and_forward_hooks_are_held_by_these_attributes() -> None:
    layer = nn.BatchNorm1d(2)
    assert getattr(layer, BUFFERS) is own_buffers(layer)
    hooks = {layer.register_forward_hook(lambda *_: None).id, layer.register_forward_pre_hook(lambda *_: None).id}
    assert {each for name in FORWARD_HOOKS for each in getattr(layer, name)} == hooks


def test_has_forward_hooks() -> None:
    layer = nn.Linear(1, 1)
    assert not has_forward_hooks(layer)
    layer.register_forward_pre_hook(lambda *_: None)
    assert has_forward_hooks(layer)


def test_is_initialized() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None: ...

    assert is_initialized(nn.Linear(1, 1))
    assert not is_initialized(Forgetful())


def test_is_compiled_in_place() -> None:
    layer = nn.Linear(1, 1)
    assert not is_compiled_in_place(layer)
    layer.compile(backend="eager")
    assert is_compiled_in_place(layer)


class _Caller(nn.Module):
    def forward(self, x: Tensor) -> list[str]:
        frame, names = sys._getframe(1), []
        for _ in CALL_FRAMES:
            names.append(frame.f_code.co_name)
            frame = frame.f_back  # type: ignore[assignment]
        return names


def test_call_frames_lie_between_the_call_and_forward() -> None:
    assert set(_Caller()(torch.zeros(1))) == set(CALL_FRAMES)


def test_load_frame_is_where_assign_sets_attributes() -> None:
    callers: list[str] = []

    class Layer(nn.Linear):
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "weight":
                callers.append(sys._getframe(1).f_code.co_name)
            super().__setattr__(name, value)

    layer = Layer(1, 1)
    layer.load_state_dict(layer.state_dict(), assign=True)
    assert callers[-1] == LOAD_FRAME


def test_wrapped_module_is_the_attribute_and_the_prefix() -> None:
    layer = nn.Linear(1, 1)
    compiled: Any = torch.compile(layer, backend="eager")
    assert getattr(compiled, WRAPPED_MODULE) is layer
    assert all(key.startswith(f"{WRAPPED_MODULE}.") for key in compiled.state_dict())


def test_extra_state_ends_the_key() -> None:
    class Layer(nn.Module):
        def get_extra_state(self) -> int:
            return 1

    assert list(Layer().state_dict()) == [EXTRA_STATE]
