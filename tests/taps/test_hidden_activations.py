"""Which activations of a graph count as hidden, and what is left alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from trueloop.taps.hidden_activations import hidden_activations
from trueloop.torch_private.autograd import saved_result

X = torch.randn(6, 4)


def seen(loss: Tensor) -> list[tuple[str, tuple[int, ...], bool]]:
    return [(found.function, tuple(found.weight.shape), found.gate) for found in hidden_activations(loss.grad_fn)]


def test_a_layer_a_function_and_a_norm_between_are_seen_alike() -> None:
    first, last = nn.Linear(4, 5), nn.Linear(5, 2)
    norm = nn.BatchNorm1d(5)
    for hidden in (nn.ReLU()(first(X)), torch.relu(first(X)), norm(first(X)).relu_(), torch.relu(X @ first.weight.T)):
        assert [entry[:2] for entry in seen(last(hidden).sum())] == [("relu", (5, 4))]
    assert seen(last(torch.dropout(torch.tanh(first(X)), 0.5, True)).sum()) == [("tanh", (5, 4), False)]


def test_units_are_the_channels_of_a_convolution_and_the_last_dimension_of_a_product() -> None:
    convolution, product = nn.Conv1d(4, 5, 1), nn.Linear(4, 5)
    (found,) = hidden_activations(nn.Conv1d(5, 1, 1)(convolution(X[:, :, None]).relu()).sum().grad_fn)
    assert (found.dimension, found.rows, tuple(found.values.shape)) == (1, 0, (6, 5, 1))
    (found,) = hidden_activations(nn.Linear(5, 1)(product(X[:, None]).relu()).sum().grad_fn)
    assert (found.dimension, found.rows, tuple(found.values.shape)) == (2, 0, (6, 1, 5))


def test_what_reaches_the_loss_without_a_further_weight_is_not_hidden() -> None:
    first, last = nn.Linear(4, 5), nn.Linear(5, 2)
    hidden = torch.relu(first(X))
    assert seen(hidden.sum()) == []
    assert seen(last(hidden).sum() + hidden.abs().mean()) == []
    assert len(seen(last(hidden).sum())) == 1


def test_a_gate_is_told_from_a_layer() -> None:
    first, gate, last = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 2)
    opened = torch.sigmoid(gate(X))
    assert seen(last(opened * first(X)).sum()) == [("sigmoid", (5, 4), True)]
    assert seen(last((1 - opened) * first(X)).sum()) == [("sigmoid", (5, 4), True)]
    assert seen(last(opened).sum()) == [("sigmoid", (5, 4), False)]


def test_a_scaled_or_masked_input_is_not_a_layers_own() -> None:
    first, last = nn.Linear(4, 5), nn.Linear(5, 2)
    assert seen(last(torch.tanh(3 * first(X))).sum()) == []
    assert seen(last(torch.relu(first(X).masked_fill(X[:, :1] > 0, 0.0))).sum()) == []
    given = X.clone().requires_grad_()
    assert seen(last(torch.relu(given @ torch.ones(4, 5))).sum()) == []


@pytest.mark.parametrize("reentrant", [True, False])
def test_nothing_is_taken_out_of_a_checkpoint(reentrant: bool) -> None:
    layers = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5))
    calls: list[int] = []
    layers[0].register_forward_hook(lambda *_: calls.append(1))
    given = X.clone().requires_grad_()
    loss = nn.Linear(5, 1)(checkpoint(layers, given, use_reentrant=reentrant)).sum()
    assert seen(loss) == []
    assert len(calls) == 1
    loss.backward()
    assert len(calls) == 2


def test_a_freed_graph_has_nothing_left_to_read() -> None:
    hidden = torch.tanh(nn.Linear(4, 5)(X))
    assert saved_result(hidden.grad_fn) is not None
    torch.autograd.backward([hidden.sum()])
    assert saved_result(hidden.grad_fn) is None
