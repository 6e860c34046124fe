"""Tensors on different devices. The meta device stands in for an accelerator: it raises where one would."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_a_tensor_made_on_the_cpu_inside_forward(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                h = self.fc(x)
                mask = torch.ones(4)  # made
                return h * mask
        Net().to("meta")(torch.randn(2, 4, device="meta"))
        """)
    assert told.said.kind == "device"
    assert "`mask` is on cpu, but `h` is on meta" in told.said.message
    assert f"created on the CPU inside `forward` at train.py:{told.at('# made')}: mask = torch.ones(4)" in told.details
    assert "torch.ones(4, device=h.device)" in told.said.fix
    assert "+        mask = torch.ones(4, device=h.device)" in told.said.diff
    assert told.line == told.at("# made")


def test_a_tensor_made_inside_the_expression(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        def shift(x):
            return x + torch.zeros(4)  # crash
        shift(torch.randn(4, device="meta"))
        """)
    assert "`torch.zeros(4)` creates its tensor on cpu, but `x` is on meta" in told.said.message
    assert "+    return x + torch.zeros(4, device=x.device)" in told.said.diff
    assert told.line == told.at("# crash")


def test_a_hidden_state(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.LSTM(4, 4)
            def forward(self, x):
                h0 = torch.zeros(1, x.size(1), 4)  # made
                c0 = torch.zeros(1, x.size(1), 4)
                out, _ = self.rnn(x, (h0, c0))
                return out
        Net().to("meta")(torch.randn(5, 2, 4, device="meta"))
        """)
    assert "`h0` is on cpu, but `x` is on meta" in told.said.message
    assert "`c0` is on cpu too" in told.details
    assert told.line == told.at("# made")


def test_a_batch_that_was_not_moved(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4)).to("meta")
        for x, y in [(torch.randn(2, 4), 1)]:  # loop
            model(x)  # crash
        """)
    assert "`x` is on cpu, but `model.0` is on meta" in told.said.message
    assert f"`x` is set at train.py:{told.at('# loop')}" in told.details
    assert "x = x.to('meta')" in told.said.fix
    assert told.line == told.at("# crash")


def test_labels_that_were_not_moved(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        criterion = nn.CrossEntropyLoss()
        model = nn.Linear(4, 3).to("meta")
        for x, y in [(torch.randn(2, 4), torch.tensor([0, 1]))]:
            out = model(x.to("meta"))
            loss = criterion(out, y)
        """)
    assert "`y` is on cpu, but `out` is on meta" in told.said.message
    assert "y = y.to(out.device)" in told.said.fix


def test_a_model_that_was_not_moved(crash: Callable[[str], Crash]) -> None:
    told = crash("model = nn.Sequential(nn.Linear(4, 4))\nmodel(torch.randn(2, 4, device='meta'))")
    assert "The weights of `model.0` (Linear) are on cpu" in told.said.message
    assert "All parameters of Sequential are on cpu" in told.details
    assert "model.to('meta')" in told.said.fix


def test_a_layer_in_a_plain_list(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
                self.others = [nn.Linear(4, 4)]
            def forward(self, x):
                h = self.fc(x)
                for layer in self.others:
                    h = layer(h)
                return h
        Net().to("meta")(torch.randn(2, 4, device="meta"))
        """)
    assert "The weights of `layer` (Linear) are on cpu" in told.said.message
    assert "not registered in Net" in told.details
    assert "nn.ModuleList" in told.said.fix


def test_a_layer_that_was_replaced_after_the_move(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4)).to("meta")
        model[1] = nn.Linear(4, 2)
        model(torch.randn(2, 4, device="meta"))
        """)
    assert "created or replaced after the model was moved" in told.details


def test_a_plain_attribute_that_is_no_buffer(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
                self.scale = torch.ones(4)  # set
            def forward(self, x):
                return self.fc(x) * self.scale
        Net().to("meta")(torch.randn(2, 4, device="meta"))
        """)
    assert "`self.scale` is on cpu, but `self.fc(x)` is on meta" in told.said.message
    assert "neither a parameter nor a buffer" in told.details
    assert 'self.register_buffer("scale", …)' in told.said.fix
    assert told.line == told.at("# set")


FAKE = """
space = {{}}
exec(compile('''
def op(*tensors):
    raise RuntimeError({message!r})
''', "/opt/site-packages/fake.py", "exec"), space)
op = space["op"]
def step(x):
    offsets = torch.arange(4)  # made
    return op(x, offsets)
step(torch.zeros(4, device="meta"))
"""


def test_the_words_of_a_gpu(crash: Callable[[str], Crash]) -> None:
    """Texts as CUDA raises them, from a function of a library's."""
    for message in (
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "Expected all tensors to be on the same device, but got mat1 is on cpu, different from other tensors on cuda:0 "
        "(when checking argument in method wrapper_CUDA_addmm)",
        "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
        "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
        "Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu",
    ):
        told = crash(FAKE.format(message=message))
        assert "`offsets` is on cpu, but `x` is on meta" in told.said.message
        assert "torch.arange(4, device=x.device)" in told.said.fix
        assert told.line == told.at("# made")


def test_a_move_whose_result_was_thrown_away(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(4, 3).to("meta")
        for _ in range(2):
            x = torch.randn(8, 4)
            x.to("meta")  # thrown
            model(x)
        """)
    assert told.line == told.at("# thrown")
    assert "nothing keeps it: `x` stays on cpu" in told.details
    assert 'x = x.to("meta")' in told.said.fix


def test_moves_of_an_item_and_of_an_attribute_that_were_thrown_away(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(4, 3).to("meta")
        batch = {"x": torch.randn(8, 4)}
        batch["x"].to("meta")  # thrown
        out = model(batch["x"])
        """)
    assert told.line == told.at("# thrown")
    told = crash("""
        class Trainer:
            def __init__(self):
                self.model = nn.Linear(4, 3).to("meta")
                self.weights = torch.ones(3)
                self.weights.to("meta")  # thrown
            def step(self, x):
                out = self.model(x)
                return out * self.weights
        Trainer().step(torch.randn(8, 4, device="meta"))
        """)
    assert told.line == told.at("# thrown")


def test_a_comparison_in_a_plain_expression(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(4, 3).to("meta")
        for x, labels in [(torch.randn(8, 4), torch.arange(8) % 3)]:
            outputs = model(x.to("meta"))
            correct = (outputs.argmax(1) == labels).sum()  # crash
        """)
    assert "`labels` is on cpu, but `outputs.argmax(1)` is on meta" in told.said.message
    assert told.line == told.at("# crash")
