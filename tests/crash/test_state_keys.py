"""A checkpoint that does not fit: the prefix, the nesting, the sizes or the names."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.conftest import Crash


def test_the_prefix_of_a_wrapper(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Sequential(nn.Linear(2, 2))
        state = {"module." + key: value for key, value in model.state_dict().items()}  # made
        model.load_state_dict(state)  # crash
        """)
    assert told.said.kind == "state-keys"
    assert 'Every key in the checkpoint starts with "module."' in told.said.message
    assert 'key.removeprefix("module.")' in told.said.fix
    assert told.line == told.at("# crash")
    told = crash("""
        model = nn.Sequential(nn.Linear(2, 2))
        model.load_state_dict({"_orig_mod." + key: value for key, value in model.state_dict().items()})
        """)
    assert "torch.compile" in told.said.message


def test_a_wrapped_model(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        class Wrapper(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.module = inner
        inner = nn.Linear(2, 2)
        Wrapper(inner).load_state_dict(inner.state_dict())
        """)
    assert 'Every key of Wrapper starts with "module."' in told.said.message


def test_weights_that_are_one_entry(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        model = nn.Sequential(nn.Linear(2, 2))
        checkpoint = {"epoch": 3, "model_state": model.state_dict()}
        model.load_state_dict(checkpoint)
        """)
    assert "in its entry 'model_state'" in told.said.message
    assert "load_state_dict(checkpoint['model_state'])" in told.said.fix


def test_another_head(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        old = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 5))
        new = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3))
        new.load_state_dict(old.state_dict())
        """)
    assert (
        "2 entries of 4 have different shapes: `1.weight` is [5, 2] in the checkpoint and [3, 2] in Sequential"
        in told.said.message
    )
    assert "leave `1` out" in told.said.fix


def test_other_names(crash: Callable[[str], Crash]) -> None:
    told = crash("""
        old = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 5))
        new = nn.Sequential(nn.Linear(2, 2))
        new.load_state_dict(old.state_dict())
        """)
    assert "Sequential has 0 entries that the checkpoint lacks, and the checkpoint has 2 entries" in told.said.message
    assert "Only in the checkpoint: 1.weight, 1.bias." in told.details
