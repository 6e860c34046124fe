"""Something that is no tensor was given to a layer: what it was, and how to get at the tensor in it."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_what_an_lstm_returns(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.LSTM(3, 4)
                self.fc = nn.Linear(4, 1)
            def forward(self, x):
                out = self.rnn(x)  # set
                return self.fc(out)  # crash
        Net()(torch.zeros(2, 2, 3))
        """)
    assert told.said.kind == "not-a-tensor"
    assert "`fc` (Linear) needs a tensor, but `out` is a tuple of 2 (float32 [2, 2, 4]" in told.said.message
    assert "nn.LSTM returns two things" in told.details
    assert f"at train.py:{told.at('# set')}: out, _ = self.rnn(x)" in told.said.fix
    assert told.line == told.at("# crash")


def test_a_batch_that_was_not_unpacked(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        from torch.utils.data import DataLoader, TensorDataset
        model = nn.Conv2d(1, 2, 3)
        loader = DataLoader(TensorDataset(torch.zeros(4, 1, 5, 5), torch.zeros(4)), batch_size=2)
        for batch in loader:  # loop
            model(batch)
        """)
    assert "`batch` is a list of 2 (float32 [2, 1, 5, 5], float32 [2])" in told.said.message
    assert f"at train.py:{told.at('# loop')}: for x, y in" in told.said.fix


def test_an_array_and_a_dict(crash: Callable[[str], Crash]) -> None:
    told = crash("import numpy as np\nmodel = nn.Linear(3, 1)\nrows = np.zeros((2, 3))\nmodel(rows)")
    assert "`rows` is a ndarray" in told.said.message or "`rows` is an ndarray" in told.said.message
    assert "torch.from_numpy(rows).float()" in told.said.fix
    told = crash("model = nn.Linear(3, 1)\nbatch = {'x': torch.zeros(2, 3), 'y': 1}\nmodel(batch)")
    assert "a dict with the keys 'x', 'y'" in told.said.message
    assert "batch['x']" in told.said.fix


def test_a_forward_that_returns_nothing(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 1)
            def forward(self, x):  # forward
                x = self.fc(x)
        model = Net()
        out = model(torch.zeros(2, 4))
        loss = F.mse_loss(out, torch.zeros(2, 1))
        """)
    assert "`out` is None" in told.said.message
    assert f"Net.forward at train.py:{told.at('# forward')} returns nothing" in told.said.fix


def test_a_tuple_used_like_a_tensor(crash: Callable[[str], Crash]) -> None:
    told = crash("rnn = nn.GRU(3, 4)\nout = rnn(torch.zeros(2, 2, 3))\nout.view(4, 4)")
    assert "`out` is a tuple of 2" in told.said.message
    assert "out, _ = rnn(" in told.said.fix


def test_attributes_that_have_nothing_to_do_with_tensors(crash: Callable[[str], Crash]) -> None:
    assert crash("config = None\nconfig.view").verdict.crash is None
    assert crash("names = ('a', 'b')\nnames.view").verdict.crash is None
    assert crash("outs = [torch.zeros(1)]\nouts.push(1)").verdict.crash is None
