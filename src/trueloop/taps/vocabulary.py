"""What the user's code holds about sequences of symbols: ids of unknown symbols and of padding, and limits of length.

Read from the user's variables (constants, dicts, lists of words, attributes of own objects) and from the source: the
default of `vocab.get(word, 1)`, the limit of `ids[:max_len]`.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import FrameType, SimpleNamespace
from typing import Any, Final

from torch import nn
from torch.utils.data import DataLoader, Dataset

from trueloop.taps.variables import users_variables
from trueloop.usercode.names import words_of
from trueloop.usercode.ownership import is_users
from trueloop.usercode.source import source_of

__all__ = ["Vocabulary", "vocabulary_here"]

UNKNOWN: Final = frozenset({"unk", "unks", "unknown", "oov"})
PADDING: Final = frozenset({"pad", "padding"})
LARGEST: Final = 1_000_000  # id
MOST: Final = 2000  # values that are looked at
FEW: Final = 64  # entries of a dict that are looked into
ENDS: Final = 6  # words at the ends of a list
DEEP: Final = 3
_BARE: Final = ("unk", "unknown", "oov", "pad")
_SPECIAL: Final = tuple(
    form.format(word)
    for each in _BARE
    for word in (each, each.upper(), each.capitalize())
    for form in ("<{}>", "[{}]", "{}", "__{}__", "_{}_", "|{}|", "<|{}|>", "{{{}}}")
)
_USES: Final = (ast.ListComp, ast.GeneratorExp, ast.List, ast.Return, ast.Assign, ast.Call)  # of an id
_OF_NUMBERS: Final = UNKNOWN | PADDING | {"id", "idx", "index", "token", "word", "char", "symbol", "code", "value"}
_OPEN: Final = (SimpleNamespace, argparse.Namespace, DataLoader, Dataset)


@dataclass(slots=True)
class Vocabulary:
    unknown: dict[int, str] = field(default_factory=dict)  # id: what the script calls it
    padding: dict[int, str] = field(default_factory=dict)
    fallback: dict[int, str] = field(default_factory=dict)  # id that symbols without an entry get: the expression
    limits: dict[int, str] = field(default_factory=dict)  # number that sequences are cut at: its name
    pads: bool = False  # the script has rows of different lengths in mind
    numbers: dict[str, set[int]] = field(default_factory=dict)


def vocabulary_here(depth: int = 1) -> Vocabulary:
    """Of the running functions of the user and of their modules."""
    found = Vocabulary()
    left = [MOST]
    seen: set[int] = set()
    modules = {id(frame.f_globals): frame.f_globals for frame in _frames(depth + 1)}
    for variables in (*users_variables(depth + 1, 6), *modules.values()):
        for name, value in list(variables.items()):
            _look(found, name, value, 0, left, seen)
    for path in {str(held.get("__file__", "")) for held in modules.values()}:
        cuts, defaults, pads, arguments = _in_source(path)
        found.pads = found.pads or pads
        for name, number in arguments:
            found.numbers.setdefault(name, set()).add(number)
        for name, text in defaults:
            for number in _values(found, name):
                found.fallback.setdefault(number, text)
        for name in cuts:
            found.limits.update(dict.fromkeys(_values(found, name), name))
    return found


def _frames(depth: int) -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _values(found: Vocabulary, name: str) -> set[int]:
    return {int(name)} if name.isdigit() else found.numbers.get(name, set())


def _look(found: Vocabulary, name: str, value: Any, depth: int, left: list[int], seen: set[int]) -> None:
    left[0] -= 1
    if left[0] < 0 or name.startswith("__"):
        return
    if type(value) is int and 0 <= value < LARGEST:
        found.numbers.setdefault(name, set()).add(value)
        if _OF_NUMBERS.issuperset(words_of(name)):
            _name(found, value, name, name)
    elif type(value) in (list, tuple) and value and type(value[0]) is str:
        for index in {*range(min(ENDS, len(value))), *range(max(0, len(value) - ENDS), len(value))}:
            if value[index] in _SPECIAL:
                _name(found, index, value[index], f'{name}.index("{value[index]}")')
    elif isinstance(value, dict) and id(value) not in seen and depth < DEEP:
        seen.add(id(value))
        for key in _SPECIAL:
            if type(special := dict.get(value, key)) is int:
                _name(found, special, key, f'{name}["{key}"]')
        if dict.__len__(value) <= FEW:
            for key, one in list(dict.items(value)):
                if isinstance(key, str):
                    _look(found, key, one, depth + 1, left, seen)
    elif depth < DEEP and id(value) not in seen and _is_open(type(value)):
        seen.add(id(value))
        for key, one in list(object.__getattribute__(value, "__dict__").items()):
            _look(found, key, one, depth + 1, left, seen)


def _is_open(kind: type) -> bool:
    """The user's own class, or one that holds such objects. Attributes are read from `__dict__`: no code of the user's
    runs."""
    if issubclass(kind, _OPEN):
        return True
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is not None and is_users(file) and not issubclass(kind, (nn.Module, type)) and "__dict__" in dir(kind)


def _name(found: Vocabulary, number: int, name: str, shown: str) -> None:
    words = {*words_of(name), name.strip("<>[]{}_|").lower()}
    if words & UNKNOWN and 0 <= number < LARGEST:
        found.unknown.setdefault(number, shown)
    elif words & PADDING and 0 <= number < LARGEST:
        found.padding.setdefault(number, shown)


@lru_cache(maxsize=16)
def _in_source(path: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...], bool, tuple[tuple[str, int], ...]]:
    """Names (or digits) of limits of slices, those of defaults with their expressions, whether anything is padded, and
    defaults of parameters."""
    source = source_of(path)
    cuts: list[str] = []
    defaults: list[tuple[str, str]] = []
    arguments: list[tuple[str, int]] = []
    pads = False
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Slice):
            upper = node.upper if node.lower is None else None
            if isinstance(node.lower, ast.UnaryOp) and node.upper is None:
                upper = node.lower.operand
            cuts += _identifier(upper)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            used = isinstance(next(source.parents(node), None), _USES)
            if len(node.args) == 2 and not isinstance(node.args[0], ast.Constant) and used:
                defaults += [(name, ast.unparse(node)) for name in _identifier(node.args[1])]
        elif isinstance(node, ast.IfExp) and any(isinstance(part, (ast.In, ast.NotIn)) for part in ast.walk(node.test)):
            defaults += [(name, ast.unparse(node)) for name in _identifier(node.orelse)]
        elif isinstance(node, ast.arguments):
            pairs = [*zip(node.args[len(node.args) - len(node.defaults) :], node.defaults, strict=True)]
            arguments += [(arg.arg, value.value) for arg, value in pairs
                          if isinstance(value, ast.Constant) and type(value.value) is int]  # fmt: skip
        pads = pads or _is_padding(node)
    cuts += [alias for name in set(cuts) for alias in _passed_as(source.tree, name)]
    return tuple(cuts), tuple(defaults), pads, tuple(arguments)


def _passed_as(tree: ast.Module, parameter: str) -> list[str]:
    """What calls of the script pass for a parameter of this name."""
    passed: list[ast.expr | None] = []
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        names = [argument.arg for argument in function.args.args]
        if parameter not in names:
            continue
        position = names.index(parameter) - (names[0] == "self")
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if called == function.name:
                passed += [keyword.value for keyword in call.keywords if keyword.arg == parameter]
                passed += call.args[position : position + 1]
    return [name for value in passed for name in _identifier(value)]


def _is_padding(node: ast.AST) -> bool:
    """A name that says so, or a row that is filled in part: `ids[i, :len(tokens)] = ...`."""
    names = (getattr(node, key, None) for key in ("id", "attr", "arg"))
    if any(PADDING & set(words_of(name)) for name in names if isinstance(name, str)):
        return True
    targets = node.targets if isinstance(node, ast.Assign) else []
    parts = [part for target in targets for part in ast.walk(target) if isinstance(part, ast.Slice)]
    return any(isinstance(part.upper, ast.Call) and ast.unparse(part.upper.func) == "len" for part in parts)


def _identifier(node: ast.expr | None) -> list[str]:
    """The last name of `max_len`, `cfg.max_len`, `cfg["max_len"]`; the digits of a number."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [str(node.value)]
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    key = node.slice if isinstance(node, ast.Subscript) else None
    return [key.value] if isinstance(key, ast.Constant) and isinstance(key.value, str) else []
