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

WORDS = ("errors", "event", "finding", "run", "hook", "recipe", "usercode", "results")
"""The vocabulary of the package, without torch, lowest first: each imports only those before it."""

ROOMS: dict[str, str] = {
    "torch_private": "torch",
    "trust": "words",
    "measure": "words torch torch_private",
    "rules": "words",
    "report": "words",
    "taps": "words torch torch_private measure",
    "observers": "words torch torch_private measure taps",
    "crash": "words torch torch_private measure taps",
    "profile": "words torch torch_private taps",
    "data": "words torch measure",
    "parallel": "words torch torch_private measure",
    "checkpoint": "words trust torch parallel",
    "kernels": "torch",
    "engine": "words torch torch_private measure data parallel checkpoint kernels",
    "track": "words trust report",
    "doctor": "words torch torch_private taps observers rules crash report parallel track",
    "experiment": "words torch doctor",
    "session": "words trust torch torch_private measure data parallel checkpoint engine track rules report doctor",
    "dropins": "words doctor report session",
    "sweep": "words session track",
    "recipes": "words trust torch data engine",
    "tune": "words torch torch_private measure data engine profile recipes",
    "claims": "words torch torch_private measure taps doctor experiment data parallel checkpoint engine",
    "op_claims": "words torch torch_private claims",
    "op_bench": "words torch torch_private profile op_claims",
    "optimizer_claims": "words torch torch_private measure claims",
    "readiness": "words trust checkpoint rules session",
    "inspection": "words trust torch torch_private measure data checkpoint engine op_claims",
    "export": "words trust torch torch_private measure data checkpoint engine recipes",
    "quantize": "words torch torch_private measure data engine export",
    "bench": "words torch export",
    "serve": "words trust torch report data export",
    "inference": "words trust torch data parallel checkpoint engine track session export serve",
    "labs": "words torch torch_private data kernels engine op_claims optimizer_claims inspection export quantize serve",
    "ui": "words rules claims track session report labs",
    "cli": (
        "words trust torch taps rules report doctor experiment parallel checkpoint engine recipes session inspection "
        "claims op_claims op_bench optimizer_claims readiness profile sweep tune export quantize bench serve inference "
        "labs ui dropins"
    ),
}
"""Room -> what it may import, lowest room first. A room imports only rooms above it in this list; nothing imports cli."""  # noqa: E501

FAMILIES = {
    "rules": "Rule", "observers": "Observer", "taps": "Tap", "claims": "Claim", "op_claims": "OpClaim", "optimizer_claims": "OptimizerClaim", "export": "Exporter", "quantize": "Scheme",  # noqa: E501
    "crash": "explain", "labs": "measure",
}  # fmt: skip
"""Room -> the base class (or, for crash and labs, the function) that makes a file a member of the family."""
DEEP = ("rules", "engine/programs", "labs", "trust/confine", "ui/pages")
"""Rooms with one more level of folders."""

MAX_FILE, P90_FILE = 600, 400
MAX_FUNCTION, P90_FUNCTION = 60, 30
DRAWERS = re.compile(r"^(utils?|helpers?|common|misc|managers?)$")


def _room(file: Path) -> str:
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
def test_a_file_imports_only_what_its_room_may(file: Path) -> None:
    room, word = _room(file), _word(file)
    if room == "door":
        return
    allowed = set() if room == "words" else set(ROOMS[room].split())
    for name in _imports(file):
        top, second = [*name.split("."), ""][:2]
        if top in ("torch", "numpy"):
            assert "torch" in allowed, f"{file.name} imports {name}: {room} must work without torch"
        elif top == "trueloop" and second in WORDS:
            lower = room != "words" or WORDS.index(second) <= WORDS.index(word)
            assert lower, f"{file.name} imports {name}: the word {word} stands below {second}"
        elif top == "trueloop":
            assert second in (*allowed, room, ""), f"{file.name} imports {name}: {room} may not import {second}"


PYTHONS_OWN = frozenset(
    {"_getframe", "_current_frames", "_exit", "_fields", "_replace", "_asdict", "_actions", "_bootstrap"}
)
"""Names with an underscore that belong to Python's standard library."""
TORCHS_OWN = frozenset(
    [
        "_version",
        "_base",
        "_cdata",
        "_grad",
        "_parameters",
        "_buffers",
        "_modules",
        "_forward_hooks",
        "_forward_pre_hooks",
        "_backward_hooks",
        "_backward_pre_hooks",
        "_call_impl",
        "_wrapped_call_impl",
        "_compiled_call_impl",
        "_orig_mod",
        "_iterator",
        "_workers",
        "_dataset",
        "_num_yielded",
        "_schema",
        "_input_metadata",
        "_local_tensor",
        "_last_lr",
        "_step_count",
    ]
)
"""Private names of torch's objects that our own classes may also use, on `self`."""


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def _defined_here(tree: ast.AST) -> Iterator[str]:
    """Names that a file of ours defines: functions, classes, variables, attributes of `self`."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _root(node) in ("self", "cls"):
            yield node.attr


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _private_names_of_torch(tree: ast.AST, ours: set[str]) -> Iterator[str]:
    """Private torch modules and names in imports; private attributes of torch's modules, or of objects whose class is
    not ours; the same as strings (`getattr(node, "_saved_self")`)."""
    torchs = {"torch"}
    for node in ast.walk(tree):
        paths: list[str] = []
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
        paths = [path for path in paths if path.partition(".")[0] == "torch"]
        if paths and isinstance(node, (ast.Import, ast.ImportFrom)):
            torchs |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            yield from (path for path in paths if any(map(_is_private, path.split("."))))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in PYTHONS_OWN:
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not own and (_root(node) in torchs or node.attr in TORCHS_OWN or node.attr not in ours):
                yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            dotted = re.fullmatch(r"torch(\.\w+)*\._[a-zA-Z]\w*(\.\w+)*", node.value)
            if dotted or node.value in TORCHS_OWN or re.fullmatch(r"_(raw_)?saved_\w*", node.value):
                yield repr(node.value)


def test_private_names_of_torch_are_used_in_one_room_only() -> None:
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in FILES if _room(file) != "torch_private"}
    ours = {name for tree in trees.values() for name in _defined_here(tree)}
    for file, tree in trees.items():
        used = sorted(set(_private_names_of_torch(tree, ours)))
        assert not used, f"{file.relative_to(SOURCE)} uses {used}: give it an entry in torch_private/"


@pytest.mark.parametrize(
    "line",
    [
        "import torch._dynamo", "from torch.nn.modules.conv import _ConvNd", "from torch._C import _nn",
        "from torch.utils import _pytree as pytree", "torch._foreach_norm(x)", "from torch import optim\noptim._functional",  # noqa: E501
        "tensor._version", "self.model._modules", "getattr(module, '_parameters')", "getattr(node, f'_saved_{name}')",
        "sys.modules.get('torch._dynamo.utils')", "loader._get_shared_seed",
    ],
)  # fmt: skip
def test_a_private_name_of_torch_is_recognized(line: str) -> None:
    assert list(_private_names_of_torch(ast.parse(line), set()))


def test_rooms_are_listed_from_the_lowest_up() -> None:
    rooms = list(ROOMS)
    for number, (room, allowed) in enumerate(ROOMS.items()):
        for name in set(allowed.split()) - {"words", "torch"}:
            assert rooms.index(name) < number, f"{room} may import {name}, which is not above it"


def test_no_permission_is_unused() -> None:
    used: dict[str, set[str]] = {room: set() for room in ROOMS}
    for file in FILES:
        if (room := _room(file)) in ROOMS:
            for name in _imports(file):
                top, second = [*name.split("."), ""][:2]
                used[room].add(top if top == "torch" else "words" if second in WORDS else second)
    unused = {room: rest for room, names in ROOMS.items() if (rest := set(names.split()) - used[room] - {"torch"})}
    assert not unused, f"the law permits what nobody does: {unused}"


def _is_member(file: Path, base: str) -> bool:
    """A file that holds one of its family: a class of the base, or the function."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and base in {ast.unparse(each).partition("[")[0] for each in node.bases}:
            return True
        if isinstance(node, ast.FunctionDef) and node.name == base and file.stem != base:
            return True
    return False


@pytest.mark.parametrize("room", FAMILIES)
def test_no_member_of_a_family_imports_another(room: str) -> None:
    members = {file for file in (SOURCE / room).rglob("*.py") if _is_member(file, FAMILIES[room])}
    assert len(members) > 3, f"{room} has no family: {FAMILIES[room]} is not its base"
    modules = {".".join(("trueloop", *file.relative_to(SOURCE).with_suffix("").parts)) for file in members}
    for file in members:
        siblings = modules & set(_imports(file))
        assert not siblings, f"{file.relative_to(SOURCE)} imports its sibling {siblings}"


def test_no_drawers_and_no_deep_folders() -> None:
    for file in FILES:
        parts = file.relative_to(SOURCE).with_suffix("").parts
        assert not any(DRAWERS.match(part) for part in parts), f"{file}: name the noun or the verb instead"
        assert len(parts) <= 2 + "/".join(parts).startswith(DEEP), f"{file} lies too deep"


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
        names = {
            target.id
            for n in tree.body
            if isinstance(n, ast.Assign)
            for target in n.targets
            if isinstance(target, ast.Name)
        }
        if file.stem not in ("__init__", "__main__"):
            assert "__all__" in names, f"{file} has no __all__"


def test_nothing_is_swallowed() -> None:
    silent = re.compile(r"except( Exception| BaseException)?:\s*(\n\s*)?(pass|\.\.\.)\s*$", re.MULTILINE)
    for file in FILES:
        assert not silent.search(file.read_text(encoding="utf-8")), f"{file} hides an error"


@pytest.mark.parametrize(
    "module",
    [
        "trueloop",
        "trueloop.rules.catalogue",
        "trueloop.rules.checker",
        "trueloop.run",
        "trueloop.cli.main",
        "trueloop.dropins.pytest_plugin",
        "trueloop.cli.ui",
        "trueloop.ui.server",
    ],
)
def test_the_quick_answers_load_no_torch(module: str) -> None:
    code = f"import sys, {module}; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_all_rules_load_without_torch() -> None:
    code = (
        "import sys; from trueloop.rules.catalogue import all_rules; assert all_rules(); assert 'torch' not in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_tests_are_at_least_as_long_as_the_source() -> None:
    source = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in FILES)
    tests = [file for file in (ROOT / "tests").rglob("*") if file.suffix in (".py", ".md", ".toml")]
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in tests) >= source


def _imports_of(file: Path) -> set[str]:
    """Modules that a file imports, inside functions too; not those of `if TYPE_CHECKING`."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        waiting += ast.iter_child_nodes(node)
    return found


@pytest.mark.parametrize("room", sorted({*ROOMS, *(word for word in WORDS if (SOURCE / word).is_dir())}))
def test_no_files_of_a_room_import_each_other_in_a_cycle(room: str) -> None:
    names = {
        ".".join(("trueloop", *file.relative_to(SOURCE).with_suffix("").parts)): file
        for file in (SOURCE / room).rglob("*.py")
        if file.name != "__init__.py"
    }
    left = {name: _imports_of(file) & names.keys() - {name} for name, file in names.items()}
    while free := {name for name, imports in left.items() if not imports & left.keys()}:
        left = {name: imports for name, imports in left.items() if name not in free}
    assert not left
