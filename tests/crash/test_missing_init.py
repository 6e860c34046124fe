"""A module whose __init__ does not call nn.Module's."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_it_is_never_called(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self, n):  # init
                self.fc = nn.Linear(n, 5)  # crash
        Net(3)
        """)
    assert told.said.kind == "missing-init"
    assert f"Net.__init__ (at train.py:{told.at('# init')}) never calls super().__init__()" in told.said.message
    assert f"train.py:{told.at('# crash')}" in told.details
    assert "+        super().__init__()" in told.said.diff
    assert told.line == told.at("# init")


def test_it_is_called_too_late(crash: Callable[[str], Crash]) -> None:
    told = crash('''
        class Net(nn.Module):
            def __init__(self, n):
                """A net."""
                self.weight = nn.Parameter(torch.zeros(n))
                super().__init__()  # late
        Net(3)
        ''')
    assert f"only at train.py:{told.at('# late')}" in told.said.message
    assert "to the top" in told.said.fix
    assert "-        super().__init__()" in told.said.diff


def test_it_shows_only_when_the_module_is_called(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self, n):
                self.n = n
            def forward(self, x):
                return x
        net = Net(3)
        net(torch.zeros(1))  # crash
        """)
    assert "never calls super().__init__()" in told.said.message
    assert f"train.py:{told.at('# crash')}" in told.details


def test_an_attribute_that_any_object_may_lack(crash: Callable[[str], Crash]) -> None:
    assert crash("class Box:\n    pass\nBox()._modules").verdict.crash is None
