"""The result of `env`: versions, devices and extras, for a bug report. Reads the metadata of packages; imports none."""

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import Any, Final

__all__ = ["Environment", "installed_extras", "version_line", "version_of"]

_NEED: Final = re.compile(r"([A-Za-z0-9._-]+)(\[[^\]]*\])?[^;]*(?:;.*\bextra\s*==\s*['\"]([^'\"]+)['\"])?")
UNKNOWN: Final = "not installed"


@dataclass(frozen=True, slots=True)
class Environment:
    trueloop: str
    python: str
    platform: str
    torch: str
    cpu: Mapping[str, Any]  # cores, threads of torch, memory in bytes
    devices: tuple[str, ...]  # accelerators that torch can use, with memory and capability
    backends: Mapping[str, Any]  # CUDA of the build, cuDNN, MPS
    packages: Mapping[str, str]  # those that trueloop always needs
    extras: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Extra -> package -> its version, or `not installed`."""

    def plain(self) -> dict[str, Any]:
        names = ("trueloop", "python", "platform", "torch", "cpu", "devices", "backends", "packages", "extras")
        return {name: getattr(self, name) for name in names}


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return UNKNOWN


def version_line(trueloop: str) -> str:
    """'trueloop 0.1.0 (Python 3.12.1, torch 2.13.0, Linux x86_64)', without importing torch."""
    system = f"{platform.system()} {platform.machine()}"
    return f"trueloop {trueloop} (Python {platform.python_version()}, torch {version_of('torch')}, {system})"


def installed_extras() -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Packages that trueloop needs, and those of each extra, with their versions. Empty if it is not installed."""
    try:
        needs = distribution("trueloop").requires or []
    except PackageNotFoundError:
        return {}, {}
    always: dict[str, str] = {}
    extras: dict[str, dict[str, str]] = {}
    for need in needs:
        found = _NEED.match(need)
        if found is None or found[1].lower() == "trueloop":  # an extra made of other extras
            continue
        packages = always if found[3] is None else extras.setdefault(found[3], {})
        packages[found[1]] = version_of(found[1])
    return always, extras
