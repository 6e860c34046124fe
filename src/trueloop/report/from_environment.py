"""The result of `env` as a document."""

from collections.abc import Mapping

from trueloop.report.units import bytes_of
from trueloop.results.document import Document, Facts
from trueloop.results.environment import UNKNOWN, Environment

__all__ = ["document"]


def document(environment: Environment) -> Document:
    own = {"trueloop": environment.trueloop, "Python": environment.python, "torch": environment.torch}
    cpu = dict(environment.cpu)
    memory = cpu.pop("memory", None)
    machine = {"platform": environment.platform, **cpu, **({"memory": bytes_of(memory)} if memory else {})}
    machine["devices"] = ", ".join(environment.devices) or "none"
    extras = {name: _packages(packages) for name, packages in environment.extras.items()}
    return Document(
        title=f"trueloop {environment.trueloop}",
        parts=(
            Facts("Versions", {**own, **environment.packages}),
            Facts("Machine", {**machine, **environment.backends}),
            *((Facts("Extras", extras),) if extras else ()),
        ),
        name="trueloop env",
        data=environment.plain(),
    )


def _packages(packages: Mapping[str, str]) -> str:
    """'installed', or what is missing."""
    missing = [name for name, version in packages.items() if version == UNKNOWN]
    if not missing:
        return "installed"
    return f"missing: {', '.join(missing)}" if len(missing) < len(packages) else "not installed"
