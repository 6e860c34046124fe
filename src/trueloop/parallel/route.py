"""By which network interface does this machine reach another? gloo alone asks the machine's own name, which often
leads to no network at all (127.0.1.1). No torch."""

import contextlib
import ipaddress
import socket
import struct
from dataclasses import dataclass
from typing import Final, final

__all__ = ["INTERFACE", "Route", "route_to"]

INTERFACE: Final = "GLOO_SOCKET_IFNAME"  # The variable that gloo reads
ANY_PORT: Final = 9  # Nothing is sent to it: a datagram socket that is connected only asks the system for the way
SIOCGIFADDR: Final = 0x8915  # Linux: the address of an interface, by its name


@final
@dataclass(frozen=True, slots=True)
class Route:
    """From here to somewhere."""

    address: str  # Of this machine, as the other one sees it
    interface: str  # Its name; empty: the system does not say


def route_to(host: str) -> Route | None:
    """None: there is no way there, its name is unknown here, or it is this machine under its own name (localhost)."""
    try:
        family, _, _, _, there = socket.getaddrinfo(host, ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect(there)
            address = str(asking.getsockname()[0])
    except OSError:
        return None
    if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        return None
    return Route(address, _interface_of(address))


def _interface_of(address: str) -> str:
    for _, name in socket.if_nameindex():
        if address in (_ipv4(name), *_ipv6(name)):
            return name
    return ""


def _ipv4(interface: str) -> str:
    try:
        from fcntl import ioctl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            told = ioctl(asking.fileno(), SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
    except OSError:  # it has none, or this is not Linux
        return ""
    return socket.inet_ntoa(told[20:24])


def _ipv6(interface: str) -> list[str]:
    found: list[str] = []
    with contextlib.suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as file:
        for line in file:
            digits, *_, name = line.split()
            if name == interface:
                found.append(str(ipaddress.IPv6Address(int(digits, 16))))
    return found
