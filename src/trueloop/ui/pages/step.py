"""The recorded step program of a checked script, as a graph of one level, and who trains what."""

from pathlib import PurePath
from typing import Any, Final

from trueloop.errors import NotARun
from trueloop.ui.bounded_files import read_json
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.run_rows import read_about, short
from trueloop.ui.step_graph import LEVELS, graph_of, parameters_of

__all__ = ["FILE", "data"]

FILE: Final = "step_program.json"


def data(library: Library, query: Query) -> dict[str, Any]:
    """`level` is model, layer or operation; `phase` training or evaluation."""
    folder = library.folder(query.text("run"))
    recorded = read_json(folder, FILE)
    if recorded is None:
        about = read_about(folder)
        return {"recorded": False, "script": short(about.get("script") or ""), "kind": short(about.get("kind") or "")}
    programs = recorded.get("programs") if isinstance(recorded, dict) else None
    if not isinstance(programs, list) or not all(isinstance(each, dict) for each in programs):
        raise NotARun(f"{FILE} is damaged: it has no list of programs.")
    level = query.text("level") if query.text("level") in LEVELS else LEVELS[0]
    phases = [str(each.get("phase"))[:40] for each in programs]
    chosen = query.text("phase") if query.text("phase") in phases else next(iter(phases), "")
    if not phases:
        return {"recorded": False, "script": "", "kind": ""}
    program = programs[phases.index(chosen)]
    optimizers = recorded.get("optimizers")
    known = optimizers if isinstance(optimizers, list) and chosen == "training" else []
    files = recorded.get("files")
    return {
        "recorded": True,
        "level": level,
        "phases": phases,
        "phase": chosen,
        "step": program.get("step") if isinstance(program.get("step"), int) else None,
        "complete": program.get("complete") is not False,
        "operations": len(program["operations"]) if isinstance(program.get("operations"), list) else 0,
        "files": [PurePath(str(each)).name[:200] for each in files][:200] if isinstance(files, list) else [],
        "graph": graph_of(program, known[:50], level),
        "parameters": parameters_of(program),
        "optimizers": [short(each.get("name")) for each in known[:50] if isinstance(each, dict)],
    }
