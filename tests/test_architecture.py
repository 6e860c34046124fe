"""The house rules, as tests: who may import whom, how long things may be, what every file must have."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "trueloop"
FILES = sorted(SOURCE.rglob("*.py"))

WORDS = (
    "event",
    "finding",
    "verdict",
    "run",
    "errors",
    "settings",
    "source",
    "written",
    "allow",
    "rewrite",
    "proof",
    "statement",
    "profiled",
    "sheet",
    "hook",
    "recipe",
    "vet",
    "amend",
    "tuned",
    "planned",
    "artefact",
    "quantized",
    "benched",
)
"""What everything speaks; no torch. Each may import only those that stand before it, or are listed for it below."""

MAY_IMPORT: dict[str, set[str]] = {
    "rules": {"words"},
    "report": {"words"},
    "taps": {"words", "torch"},
    "probes": {"words", "torch", "taps"},
    "crash": {"words", "torch", "taps"},
    "profile": {"words", "torch", "taps"},
    "doctor": {"words", "torch", "taps", "probes", "rules", "crash", "report", "parallel"},
    "data": {"words", "torch"},
    "parallel": {"words", "torch"},
    "checkpoint": {"words", "torch", "parallel"},
    "kernels": {"words", "torch"},
    "engine": {"words", "torch", "data", "parallel", "checkpoint", "kernels"},
    "track": {"words"},
    "recipes": {"words", "torch", "data", "engine"},
    "session": {"words", "torch", "data", "parallel", "checkpoint", "engine", "track", "rules", "report", "doctor"},
    "tune": {"words", "torch", "data", "parallel", "checkpoint", "engine", "profile", "recipes"},
    "claims": {"words", "torch", "taps", "probes", "doctor", "data", "parallel", "checkpoint", "engine"},
    "readiness": {"words", "checkpoint", "rules", "session"},
    "inspection": {"words", "torch", "data", "checkpoint", "engine"},
    "export": {"words", "torch", "data", "checkpoint", "engine", "recipes"},
    "quantize": {"words", "torch", "data", "engine", "export"},
    "bench": {"words", "torch", "export", "recipes"},
    "serve": {"words", "torch", "data", "export"},
    "cli": {
        "words",
        "torch",
        "taps",
        "probes",
        "rules",
        "crash",
        "report",
        "doctor",
        "data",
        "parallel",
        "checkpoint",
        "engine",
        "track",
        "recipes",
        "session",
        "inspection",
        "claims",
        "readiness",
        "profile",
        "tune",
        "export",
        "quantize",
        "bench",
        "serve",
    },
}
"""What is not listed is forbidden. Nothing imports cli."""

FAMILY_BASES = {
    "rules": {"rule", "judge", "catalogue"},
    "probes": {"probe", "roster", "assemble"},
    "taps": {"tap", "wire", "moment", "place", "note", "graph", "board", "internals", "twin", "journal"},
    "claims": {"claim", "subject", "trace", "leak", "holder", "steps", "digest", "parting", "rerun", "interrupt", "reload", "numbers"},
    "crash": {"explain", "explanation", "origin", "scene"},
    "quantize": {"scheme", "stored", "simulated", "static", "measure", "decide", "make", "catalogue"},
    "export": {
        "exporter",
        "program",
        "traced",
        "trust",
        "compare",
        "elsewhere",
        "folder",
        "subject",
        "verify",
        "blame",
        "card",
        "device",
        "make",
        "catalogue",
    },
}
"""Files that a family's members share. Members never import one another; a base that gathers them (`board`) may."""

GATHERERS = {"taps/board.py", "claims/prove.py"}
MAX_FILE, P90_FILE = 600, 400
MAX_FUNCTION, P90_FUNCTION = 60, 30
DRAWERS = re.compile(r"^(utils?|helpers?|common|misc|managers?)$")


def _house(file: Path) -> str:
    """The part of the house a file belongs to: a folder's name, 'words', or 'door' for __init__ and __main__."""
    parts = file.relative_to(SOURCE).parts
    if _word(file) in WORDS:
        return "words"
    return parts[0] if len(parts) > 1 else "door"


def _word(file: Path) -> str:
    """The file, or the folder, right under the root of the package: `event` for event/loss.py."""
    return file.relative_to(SOURCE).with_suffix("").parts[0]


def _imports(file: Path) -> Iterator[str]:
    """Module names that a file imports, lazily or not; what only the type checker sees is left out."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_imports_only_what_its_part_of_the_house_may(file: Path) -> None:
    house = _house(file)
    if house == "door":
        return
    allowed = {"words"} if house == "words" else MAY_IMPORT[house]
    for name in _imports(file):
        top = name.split(".")[0]
        if top in ("torch", "numpy"):
            assert "torch" in allowed, f"{file.name} imports {name}: {house} must work without torch"
        elif top == "trueloop":
            second = [*name.split("."), ""][1]
            target = "words" if second in WORDS else second
            assert target in (*allowed, house, ""), f"{file.name} imports {name}: {house} may not import {target}"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_no_member_of_a_family_imports_a_sibling(file: Path) -> None:
    house = _house(file)
    shown = str(file.relative_to(SOURCE))
    if house not in FAMILY_BASES or file.stem in ("__init__",) or shown in GATHERERS:
        return
    for name in _imports(file):
        parts = name.split(".")
        if parts[:2] == ["trueloop", house] and len(parts) > 2:
            assert parts[2] in FAMILY_BASES[house], f"{shown} imports its sibling {name}"


def test_words_import_one_another_without_cycles() -> None:
    graph: dict[str, set[str]] = {}
    for file in FILES:
        if _house(file) == "words":
            needs = {name.split(".")[1] for name in _imports(file) if name.startswith("trueloop.")}
            graph.setdefault(_word(file), set()).update(needs - {_word(file)})
    done: set[str] = set()
    while remaining := {word: needs - done for word, needs in graph.items() if word not in done}:
        free = {word for word, needs in remaining.items() if not needs}
        assert free, f"words import each other in a circle: {sorted(remaining)}"
        done |= free


def test_parts_of_the_house_import_one_another_without_cycles() -> None:
    graph: dict[str, set[str]] = {}
    for file in FILES:
        house = _house(file)
        if house in MAY_IMPORT:
            targets = {name.split(".")[1] for name in _imports(file) if name.startswith("trueloop.")}
            graph.setdefault(house, set()).update(t for t in targets if t in MAY_IMPORT and t != house)
    done: set[str] = set()
    while remaining := {house: needs - done for house, needs in graph.items() if house not in done}:
        free = {house for house, needs in remaining.items() if not needs}
        assert free, f"folders import each other in a circle: {sorted(remaining)}"
        done |= free


def test_no_drawers_and_no_deep_folders() -> None:
    for file in FILES:
        parts = file.relative_to(SOURCE).with_suffix("").parts
        assert not any(DRAWERS.match(part) for part in parts), f"{file}: name the noun or the verb instead"
        assert len(parts) <= (3 if parts[0] == "rules" or parts[:2] == ("tune", "knobs") else 2), f"{file} lies too deep"


def _functions(file: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[1:] if ast.get_docstring(node) else node.body
            if first:
                yield f"{file.name}:{node.lineno} {node.name}", (first[-1].end_lineno or 0) - first[0].lineno + 1


def _p90(sizes: list[int]) -> int:
    return sorted(sizes)[int(len(sizes) * 0.9)]


def test_files_and_functions_stay_small() -> None:
    files = {str(file.relative_to(SOURCE)): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    functions = dict(pair for file in FILES for pair in _functions(file))
    assert not {name: size for name, size in files.items() if size > MAX_FILE}
    assert not {name: size for name, size in functions.items() if size > MAX_FUNCTION}
    assert _p90(list(files.values())) <= P90_FILE
    assert _p90(list(functions.values())) <= P90_FUNCTION


def test_every_file_says_what_it_is_and_what_it_offers() -> None:
    for file in FILES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if not tree.body:
            continue
        assert ast.get_docstring(tree), f"{file} has no docstring"
        names = {target.id for n in tree.body if isinstance(n, ast.Assign) for target in n.targets if isinstance(target, ast.Name)}
        if file.stem not in ("__init__", "__main__"):
            assert "__all__" in names, f"{file} has no __all__"


def test_nothing_is_swallowed() -> None:
    silent = re.compile(r"except( Exception| BaseException)?:\s*(\n\s*)?(pass|\.\.\.)\s*$", re.MULTILINE)
    for file in FILES:
        assert not silent.search(file.read_text(encoding="utf-8")), f"{file} hides an error"


@pytest.mark.parametrize("module", ["trueloop", "trueloop.rules.catalogue", "trueloop.rules.judge", "trueloop.run", "trueloop.cli.main"])
def test_the_quick_answers_load_no_torch(module: str) -> None:
    code = f"import sys, {module}; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_all_rules_load_without_torch() -> None:
    code = "import sys; from trueloop.rules.catalogue import all_rules; assert all_rules(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_tests_are_at_least_as_long_as_the_source() -> None:
    source = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in FILES)
    tests = [file for file in (ROOT / "tests").rglob("*") if file.suffix in (".py", ".md", ".toml")]
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in tests) >= source
