"""Backward through a graph that is gone: what carries it over."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_a_hidden_state_carried_along(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        rnn = nn.RNN(3, 4)
        def main():
            h = torch.zeros(1, 2, 4)
            for step in range(3):  # loop
                x = torch.randn(5, 2, 3)
                out, h = rnn(x, h)  # carried
                loss = out.sum()
                loss.backward()  # crash
        main()
        """)
    assert told.said.kind == "backward-twice"
    assert f"loss.backward() at train.py:{told.at('# crash')}" in told.said.message
    assert f"`h` carries its graph from one iteration of the loop at train.py:{told.at('# loop')}" in told.details
    assert "h = h.detach()" in told.said.fix
    assert told.line == told.at("# carried")


def test_an_lstms_two_states(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        net = nn.LSTM(3, 4)
        state = (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))
        for x in torch.randn(3, 5, 2, 3):
            out, state = net(x, state)  # carried
            out.sum().backward()
        """)
    assert "state = tuple(part.detach() for part in state)" in told.said.fix
    assert told.line == told.at("# carried")


def test_a_state_kept_in_the_module(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(3, 4)
                self.h = torch.zeros(2, 4)
            def forward(self, x):
                self.h = self.cell(x, self.h)
                return self.h
        model = Net()
        for i in range(3):
            loss = model(torch.randn(2, 3)).sum()
            loss.backward()
        """)
    assert "`model.h` keeps the state of the previous step" in told.details
    assert "self.h = state.detach()" in told.said.fix


def test_a_loss_that_grows(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        w = torch.ones(3, requires_grad=True)
        total = 0
        for i in range(3):
            total = total + (w * w).sum()  # carried
            total.backward()
        """)
    assert "`total` carries its graph" in told.details
    assert "Reset `total` in each iteration" in told.said.fix
    assert told.line == told.at("# carried")


def test_a_code_computed_before_the_loop(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        encoder, head = nn.Linear(3, 3), nn.Linear(3, 1)
        code = encoder(torch.randn(2, 3)).tanh()  # once
        for i in range(3):
            loss = head(code).sum()
            loss.backward()
        """)
    assert "`code` is computed once, before the loop" in told.details
    assert told.line == told.at("# once")


def test_two_losses_on_one_graph(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        w = torch.ones(3, requires_grad=True)
        h = w.exp()
        a = h.sum()
        b = (h * 2).sum()
        a.backward()  # first
        b.backward()  # crash
        """)
    assert f"a.backward() at train.py:{told.at('# first')} ran on a graph that `a` and `b` share" in told.details
    assert "(a + b).backward()" in told.said.fix
    assert told.line == told.at("# crash")


def test_the_same_loss_twice(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        w = torch.ones(3, requires_grad=True)
        loss = (w * w).sum()
        loss.backward()  # first
        loss.backward()  # second
        """)
    assert f"lines {told.at('# first')}, {told.at('# second')}" in told.details


def test_a_loss_computed_outside_the_loop(crash: Callable[[str], Crash]) -> None:
    told = crash("w = torch.ones(3, requires_grad=True)\nloss = (w * w).sum()\nfor i in range(3):\n    loss.backward()")
    assert "Compute `loss` inside the loop" in told.said.fix
