"""Two hosts on one machine: network namespaces of Linux, joined by a cable that can be pulled. Needs root and `ip`."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = ["Host", "move_into", "two_hosts"]

CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class Host:
    """Its network is its own; files and processes are those of this machine."""

    name: str
    address: str
    cable: str

    def plug(self, state: str) -> None:
        """'up' or 'down'."""
        _ip("-n", self.name, "link", "set", self.cable, state)


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Skips where the system does not let us."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("two hosts need `ip` (iproute2) and root")
    pair = tuple(
        Host(f"trueloop-{os.getpid()}-{number}", f"10.213.0.{number + 1}", f"tl{os.getpid()}-{number}")
        for number in (0, 1)
    )
    try:
        try:
            _lay(pair)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this system makes no network namespaces: {error.stderr.strip()}")
        yield pair[0], pair[1]
    finally:
        for host in pair:
            subprocess.run(["ip", "netns", "del", host.name], capture_output=True, check=False)


def _lay(pair: tuple[Host, ...]) -> None:
    for host in pair:
        _ip("netns", "add", host.name)
        _ip("-n", host.name, "link", "set", "lo", "up")
    _ip(
        "link",
        "add",
        pair[0].cable,
        "netns",
        pair[0].name,
        "type",
        "veth",
        "peer",
        "name",
        pair[1].cable,
        "netns",
        pair[1].name,
    )
    for host in pair:
        _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", host.cable)
        host.plug("up")


def move_into(host: Host) -> None:
    """This process, and what it starts, sees that host's network from now on."""
    handle = os.open(Path("/var/run/netns") / host.name, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(handle)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], capture_output=True, text=True, check=True)
