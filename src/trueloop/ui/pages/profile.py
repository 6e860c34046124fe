"""Where the time and the memory of a step go, from `profile.json` and `trace.json` in the folder of the run."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trueloop.errors import NotARun
from trueloop.results.profile import PHASES
from trueloop.ui.bounded_files import stamp
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.profile_file import FILE, TRACE, read_profile
from trueloop.ui.run_rows import read_about
from trueloop.ui.trace_file import module_order, read_spans

__all__ = ["data"]

MOST: Final = {
    "timeline": 3000,
    "operations": 200,
    "modules": 500,
    "lines": 100,
    "copies": 50,
    "advice": 20,
    "notes": 20,
}
KEPT: Final = ("subject", "verdict", "machine", "steps", "host", "work", "ceilings", "memory", "mfu", "busy_share")


def data(library: Library, query: Query) -> dict[str, Any]:
    folder = library.folder(query.text("run"))
    profile = read_profile(folder)
    answer: dict[str, Any] = {"command": _command(folder), "profile": None, "phases": PHASES, "problem": ""}
    answer["trace"] = {"bytes": stamp(folder, TRACE)[1], "spans": [], "left_out": 0}
    if profile is None:
        return answer
    found: dict[str, Any] = {name: profile.get(name) for name in KEPT}
    for name, most in MOST.items():
        values = profile.get(name)
        found[name] = values[:most] if isinstance(values, list) else []
    answer["profile"] = found
    order: list[str] = []
    try:
        spans, left_out = read_spans(folder)
        answer["trace"] |= {"spans": spans, "left_out": left_out}
        order = module_order(spans)
    except NotARun as error:
        answer["problem"] = str(error)
    with suppress(TypeError, ValueError, AttributeError, KeyError):
        answer["memory"] = memory_over_step(found["memory"], found["modules"], order)
    return answer


def _command(folder: Path) -> str:
    """What to type, so that this page has something to show."""
    about = read_about(folder)
    script = about.get("script")
    subject = f"{script}" if isinstance(script, str) and script else f"runs/{folder.name}"
    place = f"runs/{folder.name}"
    return f"trueloop profile --format json --output {place}/{FILE} --trace {place}/{TRACE} {subject}"


def memory_over_step(memory: dict[str, Any], modules: list[Any], order: list[str]) -> dict[str, Any] | None:
    """Bytes at the end of each module's forward and backward, computed: what each keeps for its backward is measured.

    None where the order of the modules is unknown: only a trace has it.
    """
    kept = {str(each["name"]): int(each["activations"]) for each in modules}
    called = [name for name in order if kept.get(name)]
    if not called:
        return None
    base = int(memory["parameters"]) + int(memory["optimizer"]) + int(memory["buffers"])
    gradients = int(memory["gradients"])
    names, sizes, total = ["start"], [base], base
    for name in called:
        total += kept[name]
        names.append(f"{name} forward")
        sizes.append(total)
    share = gradients / len(called)  # Gradients appear while activations go
    for number, name in enumerate(reversed(called), 1):
        total -= kept[name]
        names.append(f"{name} backward")
        sizes.append(total + round(share * number))
    names.append("optimizer step")
    sizes.append(base + gradients)
    return {"names": names, "bytes": sizes, "base": base}
