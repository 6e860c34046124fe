"""A loss without a graph: what cut it off."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_a_forward_under_no_grad(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(2, 2)
        with torch.no_grad():  # block
            out = model(torch.zeros(1, 2))
        loss = out.sum()  # made
        loss.backward()
        """)
    assert told.said.kind == "no-graph"
    assert f"`loss` is set at train.py:{told.at('# made')}" in told.details
    assert "`out` is computed inside `with torch.no_grad()`" in told.details
    assert told.line == told.at("# block")


def test_a_training_function_under_no_grad(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(2, 2)
        @torch.no_grad()
        def train():
            loss = model(torch.zeros(1, 2)).sum()
            loss.backward()
        train()
        """)
    assert "`train` at train.py:7 is decorated with no_grad" in told.details


def test_the_backward_itself_under_no_grad(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(2, 2)
        def step(model):
            loss = model(torch.zeros(1, 2)).sum()
            loss.backward()
        with torch.inference_mode():  # block
            step(model)
        """)
    assert told.line == told.at("# block")


def test_an_argmax_on_the_way(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(2, 2)
        pred = model(torch.zeros(1, 2)).argmax(1)  # cut
        loss = (pred - 1.0).abs().sum()
        loss.backward()
        """)
    assert f"argmax(1)` at train.py:{told.at('# cut')} detaches the result from the graph" in told.details
    assert told.line == told.at("# cut")


def test_a_detached_prediction(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model, criterion = nn.Linear(2, 2), nn.MSELoss()
        out = model(torch.zeros(1, 2))
        loss = criterion(out.detach(), torch.tensor([[1.0, 2.0]]))  # cut
        loss.backward()
        """)
    assert "`out.detach()`" in told.details


def test_a_target_made_by_torch_tensor_is_not_blamed(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(2, 2)
        for p in model.parameters():
            p.requires_grad_(False)
        out = model(torch.zeros(1, 2))
        loss = ((out - torch.tensor([1.0, 2.0])) ** 2).mean()
        loss.backward()
        """)
    assert "torch.tensor" not in told.details.replace(
        "set at train.py:9: loss = ((out - torch.tensor([1.0, 2.0])) ** 2).mean()", ""
    )
    assert "All 2 parameters of `model` (Linear) have requires_grad=False" in told.details


def test_gradients_switched_off_for_good(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(2, 2)
        torch.set_grad_enabled(False)  # off
        loss = model(torch.zeros(1, 2)).sum()
        loss.backward()
        """)
    assert f"switched off at train.py:{told.at('# off')}" in told.details
    assert told.line == told.at("# off")
