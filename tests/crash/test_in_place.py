"""A value that backward needed was overwritten: by which statement, or by which optimizer's step."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_a_saved_output(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 5)
            def forward(self, x):
                n = 0
                n += 1
                h = torch.sigmoid(self.fc(x))
                h += 1  # change
                return h
        model = Net()
        total = 0
        for step in range(2):
            loss = model(torch.randn(2, 3)).sum()
            total += 1
            loss.backward()
        """)
    assert told.said.kind == "in-place"
    assert "sigmoid (after `fc`) saved its output [2, 5] for backward" in told.said.message
    assert f"in-place statement is at train.py:{told.at('# change')}: h += 1" in told.details
    assert "+        h = h + 1" in told.said.diff
    assert told.line == told.at("# change")


def test_the_input_of_a_layer(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 5)
                self.fc2 = nn.Linear(5, 5)
            def forward(self, x):
                h = self.fc(x)
                z = self.fc2(h)
                h.mul_(2)  # change
                return z + h
        def train(model):
            loss = model(torch.randn(2, 3)).sum()
            loss.backward()
        train(Net())
        """)
    assert "`fc2` saved its input [2, 5]" in told.said.message
    assert told.line == told.at("# change")
    assert "mul(…)" in told.said.fix


def test_two_changes_are_both_named(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        fc = nn.Linear(3, 5)
        def run(x):
            h = fc(x)
            z = h * h
            h[0] = 0  # first
            h.mul_(2)  # second
            loss = z.sum()
            loss.backward()
        run(torch.randn(2, 3))
        """)
    assert "2 in-place changes" in told.said.message
    assert f"train.py:{told.at('# first')}: h[0] = 0" in told.details
    assert f"train.py:{told.at('# second')}: h.mul_(2)" in told.details


def test_an_in_place_layer(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 5)
                self.act = nn.ReLU(inplace=True)  # built
            def forward(self, x):
                h = self.fc(x)
                sq = h * h
                return sq + self.act(h)
        model = Net()
        model(torch.randn(2, 3)).sum().backward()
        """)
    assert "`act` is ReLU(inplace=True)" in told.details
    assert "inplace=False" in told.said.fix
    assert told.line == told.at("# built")


def test_a_step_between_forward_and_backward(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        G, D = nn.Linear(3, 3), nn.Linear(3, 3)
        opt_d = torch.optim.SGD(D.parameters(), lr=0.1)
        opt_g = torch.optim.SGD(G.parameters(), lr=0.1)
        fake = G(torch.randn(2, 3))
        g_loss = D(fake).sum()
        d_loss = D(fake.detach()).sum()
        d_loss.backward()
        opt_d.step()  # change
        g_loss.backward()
        opt_g.step()
        """)
    assert f"opt_d.step() at train.py:{told.at('# change')} changed `D.weight`" in told.said.message
    assert "before opt_d.step()" in told.said.fix
    assert told.line == told.at("# change")


def test_a_leaf(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        w = nn.Parameter(torch.zeros(3))
        w += 1  # crash
        """)
    assert "`w`, float32 [3], a parameter that requires grad, is changed in place by `w += 1`" in told.said.message
    assert "torch.no_grad()" in told.said.fix
    assert told.line == told.at("# crash")


def test_a_view_of_a_leaf(crash: Callable[[str], Crash]) -> None:
    told = crash("w = torch.zeros(3, requires_grad=True)\nw[0] = 1  # crash")
    assert "changed in place by `w[0] = 1`" in told.said.message
    assert told.line == told.at("# crash")


def test_a_step_that_never_ran_is_not_blamed(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            loss = model(torch.randn(8, 4)).pow(2).mean()
            with torch.no_grad():
                for p in model.parameters():
                    p.mul_(0.9)  # changed
            loss.backward()
            optimizer.step()
        """)
    assert told.line == told.at("# changed")
    assert "step()" not in told.said.message
