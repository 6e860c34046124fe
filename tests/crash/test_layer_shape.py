"""A tensor in a shape that a layer cannot take: which layer, what came, from where, and the numbers to write."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_a_flattened_convolution_that_is_too_wide(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(1, 16, 3)
                self.fc1 = nn.Linear(256, 120)  # built
            def forward(self, x):
                x = F.max_pool2d(F.relu(self.conv(x)), 2)
                x = torch.flatten(x, 1)  # set
                return F.relu(self.fc1(x))  # crash
        model = Net()
        for images in [torch.randn(4, 1, 12, 12)]:
            model(images)
        """)
    assert told.said.kind == "layer-shape"
    assert "`fc1`, a Linear(256, 120), expects 256 features" in told.said.message
    assert "`x` has 400: float32 [4, 400]" in told.said.message
    assert f"`x` is set at train.py:{told.at('# set')}: x = torch.flatten(x, 1)" in told.details
    assert "flattened from [4, 16, 5, 5]: 16*5*5 = 400" in told.details
    assert f"nn.Linear(400, 120) at train.py:{told.at('# built')}" in told.said.fix
    assert told.line == told.at("# crash")


def test_an_image_that_was_not_flattened(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Linear(784, 10)
        for images, labels in [(torch.randn(4, 1, 28, 28), None)]:  # loop
            model(images)
        """)
    assert "`model`, a Linear(784, 10)" in told.said.message
    assert "1*28*28 = 784" in told.details
    assert f"`images` is set at train.py:{told.at('# loop')}" in told.details
    assert "images.flatten(1)" in told.said.fix


def test_inside_a_sequential_the_layer_before_is_named(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(
                    nn.Linear(4, 8),
                    nn.ReLU(),
                    nn.Linear(16, 2),  # built
                )
            def forward(self, x):
                return self.body(x)
        Net()(torch.randn(3, 4))
        """)
    assert "`body.2`, a Linear(16, 2)" in told.said.message
    assert "the output of body.1 (ReLU) has 8" in told.said.message
    assert f"nn.Linear(8, 2) at train.py:{told.at('# built')}" in told.said.fix


def test_a_layer_deeper_in_a_sequential_is_not_given_the_users_variable(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Linear(9, 2), nn.ReLU()))
        x = torch.randn(3, 4)
        model(x)
        """)
    assert "the output of model.0 (Linear) has 8" in told.said.message
    assert "`x`" not in told.said.message + told.details


def test_a_whole_batch_flattened_into_one_row(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        fc = nn.Linear(784, 10)
        x = torch.randn(4, 1, 28, 28)
        fc(x.flatten())
        """)
    assert "3136 = 4 * 784" in told.details
    assert "flatten(1)" in told.said.fix


def test_channels_last(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        conv = nn.Conv2d(3, 8, 3)
        x = torch.randn(4, 32, 32, 3)
        conv(x)
        """)
    assert "`conv`, a Conv2d(3, 8), expects 3 channels in dimension 1, but `x` has 32" in told.said.message
    assert "x.permute(0, 3, 1, 2)" in told.said.fix


def test_grey_images_for_a_colour_network(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())  # built
        model(torch.randn(4, 1, 28, 28))
        """)
    assert "expects 3 channels in dimension 1, but `torch.randn(4, 1, 28, 28)` has 1" in told.said.message
    assert f"nn.Conv2d(1, 8, …) at train.py:{told.at('# built')}" in told.said.fix


def test_a_missing_channel_dimension(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        conv = nn.Conv2d(1, 8, 3)
        x = torch.randn(64, 28, 28)
        conv(x)
        """)
    assert "one sample of 64 channels" in told.details
    assert "x.unsqueeze(1)" in told.said.fix


def test_flat_images_for_a_convolution(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        conv = nn.Conv2d(1, 8, 3)
        x = torch.randn(64, 784)
        conv(x)
        """)
    assert "784 = 1*28*28" in told.details
    assert "x.reshape(-1, 1, 28, 28)" in told.said.fix


def test_a_batch_norm_of_another_width(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm2d(8)  # built
            def forward(self, x):
                if x.sum() > 0:
                    x = x + 1
                return self.norm(x)
        Net()(torch.randn(3, 4, 2, 2))
        """)
    assert "`norm`, a BatchNorm2d(8), expects 8 channels in dimension 1, but `x` has 4" in told.said.message
    assert "set at" not in told.details, "a branch may have set it: where it came from is not certain"
    assert f"nn.BatchNorm2d(4) at train.py:{told.at('# built')}" in told.said.fix


def test_a_batch_norm_of_another_rank(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        norm = nn.BatchNorm2d(8)
        norm(torch.randn(4, 8))
        """)
    assert "expects 4 dimensions" in told.said.message
    assert "nn.BatchNorm1d(8)" in told.said.fix


def test_a_layer_norm_a_group_norm_and_a_recurrent_layer(crash: Callable[[str], Crash]) -> None:
    told = crash("norm = nn.LayerNorm(8)\nnorm(torch.randn(4, 5))")
    assert "the last dimensions to be [8], but `torch.randn(4, 5)` has [5]" in told.said.message
    told = crash("norm = nn.GroupNorm(2, 8)\nnorm(torch.randn(2, 6, 3, 3))")
    assert "expects 8 channels in dimension 1" in told.said.message
    assert "nn.GroupNorm(2, 6)" in told.said.fix
    told = crash("rnn = nn.LSTM(8, 4)\nrnn(torch.randn(5, 2, 7))")
    assert "`rnn`, an LSTM, expects 8 features in the last dimension" in told.said.message


def test_a_layer_inside_torchs_own_modules(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        import warnings
        warnings.simplefilter("ignore")
        net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 2)
        net(torch.randn(5, 2, 7))
        """)
    assert "`layers.0.self_attn`" in told.said.message
    assert "its input has 7" in told.said.message


def test_an_argument_is_followed_to_the_caller(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(5, 2)
            def forward(self, x):
                return self.fc(x)
        def train(net, batches):
            for rows in batches:  # loop
                net(rows)  # call
        train(Net(), [torch.randn(3, 4)])
        """)
    assert f"`x` is what train.py:{told.at('# call')} passes as `rows`" in told.details
    assert f"`rows` is set at train.py:{told.at('# loop')}: for rows in batches:" in told.details
