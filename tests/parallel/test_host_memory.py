"""Memory of freed tensors goes back to the system where processes hold parts of a model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import in_child
from trueloop.parallel.host_memory import LARGE, return_freed_memory

linux = pytest.mark.skipif(sys.platform != "linux", reason="it is glibc's allocator")


def held() -> int:
    """MB of private memory."""
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmData"))
    return int(line.split()[1]) // 1024


def growth() -> int:
    """After blocks of 16 MB were freed between blocks of 2 MB that stay."""
    del (first := [torch.zeros(4 << 20)])[0]  # glibc: from now on blocks of this size are kept for later ones
    before, kept = held(), []
    for _ in range(20):
        large = torch.zeros(4 << 20)
        kept.append(torch.zeros(LARGE // 2))
        del large
    assert len(kept) == 20
    assert first == []
    return held() - before - 20 * 2


@linux
def test_freed_blocks_between_others_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    assert in_child(lambda: (return_freed_memory(), growth())[1]) < 16


@pytest.mark.parametrize("name", ["MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"])
def test_the_users_own_setting_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert not return_freed_memory()


def test_without_glibc_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert not return_freed_memory()
