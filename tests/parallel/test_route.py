"""The way to another machine, asked of a system that is only pretended: every answer that it may give."""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Callable
from typing import Any, Self

import pytest

from trueloop.parallel import route as module
from trueloop.parallel.route import ANY_PORT, Route, route_to


class Asking:
    """A socket that says it has this address."""

    def __init__(self, address: str, failure: OSError | None = None) -> None:
        self.address, self.failure = address, failure
        self.connected: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def connect(self, there: Any) -> None:
        if self.failure is not None:
            raise self.failure
        self.connected.append(there)

    def getsockname(self) -> tuple[str, int]:
        return self.address, 5

    def fileno(self) -> int:
        return 3


Pretend = Callable[..., Asking]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    def make(
        address: str,
        *,
        failure: OSError | None = None,
        four: dict[str, str] | None = None,
        six: str = "",
        to: str = "10.0.0.9",
    ) -> Asking:
        asking, known = Asking(address, failure), four or {}
        family = socket.AF_INET6 if ":" in to else socket.AF_INET
        monkeypatch.setattr(socket, "getaddrinfo", lambda _, port, **__: [(family, 2, 17, "", (to, port))])
        monkeypatch.setattr(socket, "socket", lambda *_: asking)
        monkeypatch.setattr(socket, "if_nameindex", lambda: list(enumerate(["lo", "eth0", "eth1"], 1)))

        def ioctl(_: int, asked: int, packed: bytes) -> bytes:
            assert asked == 0x8915
            name = struct.unpack("256s", packed)[0].rstrip(b"\0").decode()
            if name not in known:
                raise OSError(99, "Cannot assign requested address")
            return bytes(20) + socket.inet_aton(known[name]) + bytes(4)

        monkeypatch.setattr("fcntl.ioctl", ioctl)
        monkeypatch.setattr(module, "open", lambda *_, **__: io.StringIO(six), raising=False)
        return asking

    return make


FOUR = {"lo": "127.0.0.1", "eth0": "192.168.1.4", "eth1": "10.0.0.4"}
SIX = """00000000000000000000000000000001 01 80 10 80       lo
fe80000000000000021122fffe334455 03 40 20 80     eth0
20010db8000000000000000000000004 04 40 00 80     eth1
"""


def test_the_interface_is_the_one_that_has_the_address(pretend: Pretend) -> None:
    asking = pretend("10.0.0.4", four=FOUR)
    assert route_to("first.host") == Route("10.0.0.4", "eth1")
    assert asking.connected == [("10.0.0.9", ANY_PORT)]


def test_an_address_that_no_interface_has_is_a_way_without_a_name(pretend: Pretend) -> None:
    pretend("172.16.0.1", four=FOUR, six=SIX)
    assert route_to("first.host") == Route("172.16.0.1", "")


def test_long_addresses_are_found_however_they_are_written(pretend: Pretend) -> None:
    pretend("2001:db8::4", four=FOUR, six=SIX, to="2001:db8::9")
    assert route_to("first.host") == Route("2001:db8::4", "eth1")


def test_a_system_that_keeps_no_list_of_long_addresses_has_no_name_for_them(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend("2001:db8::4", four=FOUR, to="2001:db8::9")

    def missing(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(module, "open", missing, raising=False)
    assert route_to("first.host") == Route("2001:db8::4", "")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1", "::1"])
def test_this_machine_is_no_way_to_another(pretend: Pretend, address: str) -> None:
    pretend(address, four=FOUR, six=SIX)
    assert route_to("localhost") is None


def test_a_network_that_cannot_be_reached_is_no_way(pretend: Pretend) -> None:
    pretend("10.0.0.4", failure=OSError(101, "Network is unreachable"), four=FOUR)
    assert route_to("first.host") is None


def test_a_name_that_nobody_knows_is_no_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert route_to("nobody.invalid") is None


def test_an_address_with_a_zone_is_no_loopback(pretend: Pretend) -> None:
    pretend("fe80::211:22ff:fe33:4455%eth0", four=FOUR, six=SIX, to="fe80::9")
    found = route_to("first.host")
    assert found is not None
    assert found.address.startswith("fe80::")


def test_an_interface_with_a_long_name_is_asked_for_by_what_the_system_keeps_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bytes] = []

    def ioctl(_: int, __: int, packed: bytes) -> bytes:
        asked.append(packed.rstrip(b"\0"))
        return bytes(20) + socket.inet_aton("10.1.1.1") + bytes(4)

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    assert module._ipv4("a-name-of-twenty-one-") == "10.1.1.1"
    assert asked == [b"a-name-of-twent"]
