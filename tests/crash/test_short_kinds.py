"""Crashes with one cause each: an index, a lone sample, an empty optimizer, a batch that does not stack, and the
like."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_a_row_that_an_embedding_does_not_have(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.emb = nn.Embedding(10, 4)  # built
            def forward(self, tokens):
                return self.emb(tokens)  # crash
        Net()(torch.tensor([[1, 12, 3]]))
        """)
    assert told.said.kind == "index-range"
    assert "`emb` has 10 rows (0 to 9), but `tokens` contains index 12" in told.said.message
    assert "values from 1 to 12; 1 value of 3 out of range" in told.details
    assert f"at least 13 at train.py:{told.at('# built')}" in told.said.fix
    assert told.line == told.at("# crash")


def test_an_index_beyond_a_dimension(crash: Callable[[str], Crash]) -> None:
    told = crash("x = torch.randn(3, 4)\ni = torch.tensor([[5]])\nx.gather(1, i)")
    assert "Index 5 is out of range for dimension 1 of `x`, float32 [3, 4]: its size is 4" in told.said.message


def test_negative_token_numbers(crash: Callable[[str], Crash]) -> None:
    told = crash("emb = nn.Embedding(10, 4)\nemb(torch.tensor([1, -1]))")
    assert "contains index -1" in told.said.message
    assert "padding row" in told.said.fix


def test_a_last_batch_of_one_for_batch_norm(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        from torch.utils.data import DataLoader, TensorDataset
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        loader = DataLoader(TensorDataset(torch.randn(9, 3)), batch_size=4)
        for (x,) in loader:
            model(x)  # crash
        """)
    assert told.said.kind == "lone-sample"
    assert "`model.1` (BatchNorm1d) is in training mode and got float32 [1, 4]" in told.said.message
    assert "`loader` has 9 samples in batches of 4" in told.details
    assert "drop_last=True" in told.said.fix
    assert told.line == told.at("# crash")


def test_a_single_sample_for_batch_norm(crash: Callable[[str], Crash]) -> None:
    told = crash("model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))\nmodel(torch.randn(1, 3))")
    assert "model.eval()" in told.said.fix


def test_an_optimizer_over_a_plain_list_of_layers(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(2, 2)]
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # crash
        """)
    assert told.said.kind == "empty-optimizer"
    assert "`model.layers` holds modules in a plain list" in told.details
    assert "nn.ModuleList" in told.said.fix
    assert told.line == told.at("# crash")


def test_an_optimizer_over_an_iterator_that_was_read(crash: Callable[[str], Crash]) -> None:
    told = crash("params = nn.Linear(2, 2).parameters()\nlist(params)\noptimizer = torch.optim.SGD(params, lr=0.1)")
    assert "can be read only once" in told.said.fix


def test_a_loss_that_was_not_reduced(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        criterion = nn.MSELoss(reduction="none")
        loss = criterion(nn.Linear(2, 2)(torch.randn(3, 2)), torch.zeros(3, 2))  # made
        loss.backward()  # crash
        """)
    assert told.said.kind == "not-scalar"
    assert "`loss` is float32 [3, 2] with 6 elements" in told.said.message
    assert "reduction='none'" in told.said.fix
    assert f"train.py:{told.at('# made')}" in told.details
    assert told.line == told.at("# crash")


def test_an_output_taken_for_a_loss(crash: Callable[[str], Crash]) -> None:
    told = crash("out = nn.Linear(2, 2)(torch.randn(3, 2))\nout.backward()")
    assert "Reduce it first: out.mean().backward()" in told.said.fix


def test_samples_of_different_sizes(crash: Callable[[str], Crash]) -> None:
    for workers in (0, 1):
        told = crash(f"""
            from torch.utils.data import DataLoader
            loader = DataLoader([torch.zeros(2), torch.zeros(3)], batch_size=2, num_workers={workers})
            for x in loader:  # loop
                pass
            """)
        assert told.said.kind == "ragged-batch"
        assert "sample 0 is [2], sample 1 is [3]" in told.said.message
        assert "collate_fn" in told.said.fix
        assert told.line == told.at("# loop")


def test_numpy_on_a_graph(crash: Callable[[str], Crash]) -> None:
    told = crash("out = nn.Linear(2, 2)(torch.zeros(1, 2))\nout.numpy()")
    assert told.said.kind == "to-numpy"
    assert "`out` (float32 [1, 2]) still belongs to the autograd graph" in told.said.message
    assert "out.detach().numpy()" in told.said.fix
    told = crash("import numpy as np\nloss = nn.Linear(2, 2)(torch.zeros(1, 2)).sum()\nnp.mean([loss, loss])")
    assert "`loss` (float32 [])" in told.said.message


def test_a_hidden_state_of_another_batch(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        rnn = nn.GRU(3, 4, batch_first=True)
        h = torch.zeros(1, 8, 4)  # made
        rnn(torch.randn(5, 7, 3), h)
        """)
    assert told.said.kind == "rnn-state"
    assert "needs a hidden state of [1, 5, 4] for this batch, but `h` is [1, 8, 4]" in told.said.message
    assert "read as (batch, steps, features)" in told.details
    assert "x.size(0)" in told.said.fix


def test_a_batch_read_as_steps(crash: Callable[[str], Crash]) -> None:
    told = crash("rnn = nn.LSTM(3, 4)\nh = torch.zeros(1, 5, 4)\nrnn(torch.randn(5, 7, 3), (h, h))")
    assert "batch_first=True" in told.said.fix


def test_no_forward(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                def forward(self, x):  # inner
                    return x
        Net()(torch.zeros(1))
        """)
    assert told.said.kind == "no-forward"
    assert "indented into another method" in told.details
    assert told.line == told.at("# inner")
    told = crash("class Net(nn.Module):\n    def foward(self, x):\n        return x\nNet()(torch.zeros(1))")
    assert "Rename `foward` to `forward`" in told.said.fix


def test_an_image_that_shrank_away(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(1, 16, 3)  # built
            def forward(self, x):
                x = F.max_pool2d(x, 2)  # pooled
                return self.conv(x)  # crash
        Net()(torch.randn(1, 1, 4, 4))
        """)
    assert told.said.kind == "shrunk-away"
    assert "`x` has shrunk to float32 [1, 1, 2, 2] and `conv` (Conv2d) slides a window of (3, 3)" in told.said.message
    assert f"`x` is set at train.py:{told.at('# pooled')}" in told.details
    assert told.line == told.at("# crash")
    told = crash("x = torch.randn(1, 1, 1, 1)\nF.max_pool2d(x, 2)")
    assert "`x` has shrunk to float32 [1, 1, 1, 1]" in told.said.message


def test_no_accelerator(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        space = {}
        text = "def op():\\n    raise AssertionError('Torch not compiled with CUDA enabled')"
        exec(compile(text, "/opt/site-packages/fake.py", "exec"), space)
        space["op"]()  # crash
        """)
    assert told.said.kind == "no-accelerator"
    assert "The script asks for a CUDA device" in told.said.message
    assert "torch.cuda.is_available()" in told.said.fix
    assert told.line == told.at("# crash")


def test_an_assert_on_the_gpu(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        space = {}
        text = "CUDA error: device-side assert triggered\\\\nCUDA kernel errors might be asynchronously reported at some other API call"
        exec(compile(f"def op(*a):\\n    raise RuntimeError('{text}')", "/opt/site-packages/fake.py", "exec"), space)
        emb = nn.Embedding(10, 4)
        labels = torch.tensor([0, 3, 12])
        space["op"](emb, labels)
        """)  # noqa: E501
    assert told.said.kind == "device-assert"
    assert "`labels`, int64 [3], holds values from 0 to 12" in told.details
    assert "embedding of 10 rows" in told.details
    assert "CUDA_LAUNCH_BLOCKING=1" in told.said.fix


def test_backward_on_a_number(crash: Callable[[str], Crash]) -> None:
    told = crash("model = nn.Linear(4, 1)\nloss = model(torch.randn(8, 4)).mean().item()  # taken\nloss.backward()")
    assert told.said.kind == "number-backward"
    assert "`loss` is a Python number (float)" in told.said.message
    assert told.line == told.at("# taken")
