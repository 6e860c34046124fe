"""Which tensors, which elements, which nodes; NaN and Inf."""

from __future__ import annotations

import math
from collections import OrderedDict, UserDict

import pytest
import torch
from torch import Tensor, nn

from trueloop.measure.graph import is_view, leaves_behind, node_name, nodes, operation_name, through_views
from trueloop.measure.nonfinite import bad_rows, bounds, is_bad_input, nan_or_inf, not_finite
from trueloop.measure.norms import in_running_order, layer_gradients, norms, norms_read, weights_of
from trueloop.measure.tensors import (
    dense,
    evenly_spaced,
    is_plain,
    is_readable,
    mean_of,
    memory_of,
    read_numbers,
    same_memory,
    tensors_in,
)

# -- tensors --


def test_tensors_in_every_container_in_order() -> None:
    a, b, c = torch.zeros(1), torch.ones(1), torch.ones(2)
    value = {"x": [a, (b, 3)], "y": UserDict({"z": OrderedDict(k=c)}), "s": "text"}
    assert list(tensors_in(value)) == [a, b, c]
    assert list(tensors_in([a, b, c], limit=2)) == [a, b]
    assert list(tensors_in(None)) == []


def test_what_can_be_read() -> None:
    assert is_readable(torch.zeros(2))
    for tensor in (
        torch.zeros(0),
        torch.zeros(2, device="meta"),
        torch.zeros(2).to_sparse(),
        torch.zeros(2, dtype=torch.complex64),
    ):
        assert not is_readable(tensor)
    assert is_plain(nn.Parameter(torch.zeros(1)))
    assert not is_plain([1.0])


def test_evenly_spaced_elements_of_any_dimension() -> None:
    tensor = torch.arange(12).reshape(2, 6)
    assert evenly_spaced(tensor, 6, 1) is tensor
    assert evenly_spaced(tensor, 3, 1).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert evenly_spaced(torch.arange(10), 4).tolist() == [0, 3, 6, 9]


def test_memory_and_sparse_gradients() -> None:
    tensor = torch.zeros(2, 3)
    assert memory_of(tensor) == memory_of(tensor[1])
    assert memory_of(meta := torch.zeros(1, device="meta")) == id(meta)
    assert same_memory(tensor, tensor.view(6))
    assert not same_memory(tensor, tensor[1])
    gradient = torch.sparse_coo_tensor(
        torch.tensor([[1, 1]]), torch.tensor([[1.0], [2.0]]), (3, 1), check_invariants=True
    )
    assert dense(gradient).tolist() == [[3.0]]
    assert dense(tensor) is tensor
    assert read_numbers([torch.tensor(1.0), torch.tensor(2.0)]) == [1.0, 2.0]
    assert read_numbers([]) == []


# -- graphs --


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(-1), lambda x: x[:, 0], lambda x: x[torch.tensor([0, 1])],
        lambda x: x.unbind(0)[0], lambda x: x.split(2)[0],
        lambda x: x.as_strided((2,), (1,)), lambda x: x.t(), lambda x: x.permute(1, 0),
        lambda x: x.to(torch.float64), lambda x: x.clone(),
        lambda x: x.expand(2, 4, 3), lambda x: x.unsqueeze(0).squeeze(0),
    ],
)  # fmt: skip
def test_a_softmax_is_found_behind_every_view(view: object) -> None:
    out: Tensor = view(torch.randn(4, 3, requires_grad=True).softmax(1))  # type: ignore[operator]
    behind = list(through_views(out))
    assert operation_name(behind[-1]) == "Softmax"
    assert node_name(behind[-1]) == "SoftmaxBackward0"
    assert all(map(is_view, behind[:-1]))
    assert len(behind) > 1


def test_the_walk_ends_at_the_first_operation_and_at_a_leaf() -> None:
    x = torch.randn(4, 3, requires_grad=True)
    assert [operation_name(node) for node in through_views(x.softmax(1) * 2)] == ["Mul"]
    assert list(through_views(x.detach())) == []


def test_a_tensor_without_a_graph_has_no_nodes() -> None:
    weight = torch.ones(2, requires_grad=True)
    assert list(nodes(torch.ones(2).grad_fn)) == []
    assert leaves_behind([torch.ones(2), weight * 2]) == {id(weight)}


def test_leaves_behind_outputs() -> None:
    a, b, c = (nn.Parameter(torch.ones(2)) for _ in range(3))
    assert leaves_behind([a * b, (a * 2).detach()]) == {id(a), id(b)}
    assert leaves_behind([a * b, c + 1]) == {id(a), id(b), id(c)}
    product = (a * b).sum()
    assert len(list(nodes(product.grad_fn))) == 4
    assert len(list(nodes(product.grad_fn, limit=2))) == 1


# -- NaN and Inf --


def test_nan_and_inf() -> None:
    good, nan, inf = torch.zeros(2), torch.tensor([0.0, math.nan]), torch.tensor([0.0, math.inf])
    assert not not_finite([good, torch.zeros(1).long()])
    assert not_finite({"x": (good, nan)})
    assert (nan_or_inf([inf, nan]), nan_or_inf(inf)) == ("nan", "inf")
    assert bounds([torch.tensor([1.0, math.inf, -2.0]), torch.tensor([5.0]), torch.tensor([7])]) == (-2.0, 5.0)
    assert bounds([nan[1:]]) is None
    assert is_bad_input(nan)
    assert not is_bad_input(-inf), "minus infinity alone is a mask"


def test_rows_with_nan_or_inf() -> None:
    rows = torch.zeros(4, 3)
    assert bad_rows(rows) is None
    rows[1, 0] = -math.inf
    assert bad_rows(rows) is None
    rows[2, 1], rows[3, 0] = math.inf, math.nan
    assert bad_rows(rows) == (2, 2, "inf")
    assert bad_rows(torch.zeros(4).long()) is None


# -- norms --


def test_norms_do_not_overflow_in_half_precision() -> None:
    big = torch.full((100,), 60000.0, dtype=torch.float16)
    assert norms([big]).item() == pytest.approx(600000.0, rel=1e-3)
    assert norms_read([big, torch.tensor([3.0, 4.0])]) == pytest.approx([600000.0, 5.0], rel=1e-3)
    assert norms([]).numel() == 0
    assert norms_read([]) == []


def test_weights_in_the_order_in_which_their_layers_ran() -> None:
    model = nn.Sequential(nn.Embedding(3, 4), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    model.append(model[1])
    weights = list(weights_of(model))
    assert [name for name, _, _ in weights] == ["1.weight", "3.weight"]
    assert [name for name, _, _ in in_running_order(weights, {model[3]: 0, model[1]: 1})] == ["3.weight", "1.weight"]
    assert in_running_order(weights, {model[3]: 0}) == weights, "one of two is not most of them"
    first, second = layer_gradients([("a", 4), ("b", 2)], [0.5, 0.25], [1.0, 2.0])
    assert (first.name, first.norm, first.depth) == ("a", 0.5, 0)
    assert (second.size, second.depth, second.weight_norm) == (2, 1, 2.0)


def test_the_mean_of_a_large_tensor_is_computed_in_double_precision_piece_by_piece() -> None:
    large = torch.rand(700, 300, generator=torch.Generator().manual_seed(0)) + 1000
    assert mean_of(large) == pytest.approx(large.double().mean().item(), rel=1e-13)
    assert mean_of(large.T[:5]) == pytest.approx(large.T[:5].double().mean().item(), rel=1e-13)
    assert mean_of(torch.tensor(3.0)) == 3.0
