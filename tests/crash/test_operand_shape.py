"""Two tensors that do not go together: which, in what dimension, and where each was made."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_attention_without_a_transpose(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        def attend(q, k):
            return q @ k  # crash
        q = torch.randn(2, 3, 8)
        key = torch.randn(2, 3, 8)  # made
        attend(q, key)
        """)
    assert told.said.kind == "operand-shape"
    assert "`q @ k` needs equal inner sizes, but they are 8 and 3" in told.said.message
    assert "k.transpose(-2, -1)" in told.said.fix
    assert f"train.py:{told.at('# made')}" in told.details
    assert told.line == told.at("# crash")


def test_a_product_by_name(crash: Callable[[str], Crash]) -> None:
    told = crash("a = torch.randn(3, 4)\nb = torch.randn(5, 6)\ntorch.matmul(a, b)")
    assert "they are 4 and 5" in told.said.message
    assert "`a` is float32 [3, 4]" in told.said.message


def test_a_shortcut_with_another_number_of_channels(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(4, 8, 3, padding=1)
            def forward(self, x):
                out = self.conv(x)  # made
                return out + x  # crash
        Block()(torch.randn(1, 4, 5, 5))
        """)
    assert "in dimension 1 they have 8 and 4" in told.said.message
    assert "nn.Conv2d(4, 8, 1)" in told.said.fix
    assert f"`out` is set at train.py:{told.at('# made')}" in told.details
    assert told.line == told.at("# crash")


def test_a_missing_last_dimension(crash: Callable[[str], Crash]) -> None:
    told = crash("x = torch.randn(4, 8)\nw = torch.randn(4)\ny = x * w")
    assert "w.unsqueeze(-1)" in told.said.fix


def test_what_no_variable_holds_is_said_by_torchs_numbers_only(crash: Callable[[str], Crash]) -> None:
    told = crash("x = torch.randn(4, 8)\nw = torch.randn(4, 3)\ny = x.exp() * w")
    assert "`x.exp()` and `w` is float32 [4, 3]" in told.said.message
    assert "8 and 3" in told.said.message


def test_cat_along_the_wrong_dimension(crash: Callable[[str], Crash]) -> None:
    told = crash("a = torch.randn(4, 8)\nb = torch.randn(4, 6)\nc = torch.cat([a, b], dim=0)")
    assert "`a` is float32 [4, 8] and `b` is float32 [4, 6]" in told.said.message
    assert "dim=1" in told.said.fix


def test_stack_names_the_odd_one_of_a_list(crash: Callable[[str], Crash]) -> None:
    told = crash("parts = [torch.randn(3), torch.randn(3), torch.randn(4)]\nc = torch.stack(parts)")
    assert "`parts[0]` is float32 [3] and `parts[2]` is float32 [4]" in told.said.message


def test_einsum_and_assignment_to_a_part(crash: Callable[[str], Crash]) -> None:
    told = crash("a = torch.randn(4, 8)\nb = torch.randn(4, 6)\ntorch.einsum('ij,jk->ik', a, b)")
    assert "the letter j has size 8 at first and 4" in told.said.message
    told = crash("buf = torch.zeros(4, 8)\nbuf[0] = torch.zeros(5)")
    assert "`buf[0]` is a [8] part of float32 [4, 8], but `torch.zeros(5)` is [5]" in told.said.message
    told = crash("buf = torch.zeros(4, 8)\nd = torch.zeros(5)\nbuf += d")
    assert "in dimension 1 they have 8 and 5" in told.said.message
