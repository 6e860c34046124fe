"""Each private name of torch's tensors still means what we use it for."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from trueloop.torch_private.tensors import (
    has_bf16_instructions,
    int8_matmul,
    is_shard,
    storage_id,
    tensor_version,
    view_base,
)


def test_an_inference_tensor_has_no_version() -> None:
    with torch.inference_mode():
        tensor = torch.zeros(2)
        before = tensor_version(tensor)
        tensor.add_(1)
    assert before == tensor_version(tensor) == 0


def test_a_lazy_parameter_has_a_version() -> None:
    assert tensor_version(torch.nn.UninitializedParameter()) == 0


def test_tensor_version_counts_writes_in_place() -> None:
    tensor = torch.zeros(3)
    before = tensor_version(tensor)
    tensor.sum()
    assert tensor_version(tensor) == before
    tensor.add_(1)
    assert tensor_version(tensor) == before + 1


def test_view_base_is_the_tensor_that_a_view_looks_into() -> None:
    tensor = torch.zeros(3)
    assert view_base(tensor[1:]) is tensor
    assert view_base(tensor) is None


def test_storage_id_tells_storages_apart_fake_ones_too() -> None:
    tensor, other = torch.zeros(3), torch.zeros(3)
    assert storage_id(tensor.untyped_storage()) == storage_id(tensor[1:].untyped_storage())
    assert storage_id(tensor.untyped_storage()) != storage_id(other.untyped_storage())
    with FakeTensorMode():
        one, two = torch.zeros(3), torch.zeros(3)
    assert storage_id(one.untyped_storage()) != storage_id(two.untyped_storage())


def test_int8_matmul_sums_in_int32() -> None:
    rows = torch.full((32, 32), 127, dtype=torch.int8)
    product = int8_matmul(rows, rows.t())
    assert product.dtype == torch.int32
    assert int(product[0, 0]) == 32 * 127 * 127


def test_is_shard_is_true_for_a_dtensor_only() -> None:
    from torch.distributed.tensor import DTensor

    assert not is_shard(torch.zeros(3))
    assert "_local_tensor" in DTensor.__slots__
    assert hasattr(DTensor, "device_mesh")


def test_has_bf16_instructions_answers() -> None:
    assert has_bf16_instructions() in (True, False)
