"""`trueloop env`: versions, devices and installed extras, to paste into a bug report."""

import os
import platform
from typing import Any, Final

from trueloop import __version__
from trueloop.cli.deliver import deliver
from trueloop.cli.options import Parser
from trueloop.results.check import ExitCode
from trueloop.results.environment import Environment, installed_extras

__all__ = ["env", "parser"]

ABOUT: Final = "Show versions, devices and installed extras, to paste into a bug report."


def parser() -> Parser:
    made = Parser("env", "[options]", ABOUT)
    made.add_report_options(quiet="")
    return made


def env(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    deliver(_environment(), options)
    return ExitCode.CLEAN


def _environment() -> Environment:
    import torch

    packages, extras = installed_extras()
    cpu: dict[str, Any] = {"cores": os.cpu_count(), "threads of torch": torch.get_num_threads()}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:  # not on Windows
        cpu["memory"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    backends: dict[str, Any] = {"CUDA of torch": torch.version.cuda or "none", "MPS": torch.backends.mps.is_available()}
    if torch.cuda.is_available():
        backends["cuDNN"] = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return Environment(
        trueloop=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        torch=torch.__version__,
        cpu=cpu,
        devices=tuple(map(_device, range(torch.cuda.device_count()))),
        backends=backends,
        packages={name: version for name, version in packages.items() if name != "torch"},
        extras=extras,
    )


def _device(number: int) -> str:
    import torch

    facts = torch.cuda.get_device_properties(number)
    return f"cuda:{number} {facts.name}, {facts.total_memory / 2**30:.0f} GiB, capability {facts.major}.{facts.minor}"
