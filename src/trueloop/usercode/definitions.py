"""The user's code behind a recipe: each function, class and constant that it reaches, as text without comments.

A run keeps these texts, so that `resume` can stop when the code has changed, and `compare` can show how.
"""

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from trueloop.usercode.ownership import is_users
from trueloop.usercode.source import unified

__all__ = ["code_hash", "definitions_of", "definitions_that_differ"]

LONGEST: Final = 200  # characters of a constant; a longer one is kept as a hash
_CLOCKS: Final = frozenset({"time", "perf_counter", "monotonic", "now", "today", "uuid4", "getpid", "mkdtemp"})
"""What these return differs from process to process: a constant made by one is kept as its expression."""


def definitions_of(roots: Mapping[str, Any]) -> dict[str, str]:
    """Name -> text of everything the user wrote that the roots call or read. Library code is left out."""
    walk = _Walk()
    for name, value in roots.items():
        walk.add(name, value)
    return dict(sorted(walk.found.items()))


def code_hash(definitions: Mapping[str, str]) -> str:
    return blake2b(repr(sorted(definitions.items())).encode(), digest_size=16).hexdigest()


def definitions_that_differ(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Name -> unified diff."""
    names = sorted({*before, *now})
    texts = {name: (before.get(name, ""), now.get(name, "")) for name in names}
    return {
        name: unified(name, *(text.splitlines(keepends=True) for text in _ended(pair)))
        for name, pair in texts.items()
        if pair[0] != pair[1]
    }


def _ended(texts: tuple[str, str]) -> tuple[str, str]:
    before, after = (f"{text}\n" if text else "" for text in texts)
    return before, after


class _Walk:
    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # an identity must stay that of one object

    def add(self, name: str, value: Any) -> None:
        """Keep the text of a value, then what it reaches."""
        try:
            self._add(name, value)
        except Exception:  # noqa: BLE001 - the user's objects may raise anything when they are read; no run ends by that
            self.found[name] = "cannot be read"

    def _add(self, name: str, value: Any) -> None:
        if isinstance(value, (FunctionType, type, MethodType, ModuleType, functools.partial)):
            if id(value) not in self._seen:
                self._seen.add(id(value))
                self._kept.append(value)
                self._add_code(name, value)
        elif _is_plain(value):
            self.found[name] = _short(_text(value))
        elif hasattr(value, "tobytes") or hasattr(value, "untyped_storage"):
            self.found[name] = f"{type(value).__name__} {_bytes_of(value)}"
        elif callable(value) and id(value) not in self._seen and _is_users_class(type(value)):
            self._seen.add(id(value))
            self._kept.append(value)
            self.add("", type(value))
            for key, item in getattr(value, "__dict__", {}).items():
                if _is_plain(item):
                    self.add(f"{name}.{key}", item)

    def _add_code(self, name: str, value: Any) -> None:
        if isinstance(value, functools.partial):
            self.found[f"{name} (arguments)"] = _short(_text((value.args, value.keywords)))
            self.add(name, value.func)
            for number, item in enumerate((*value.args, *value.keywords.values())):
                if not _is_plain(item):
                    self.add(f"{name} (argument {number})", item)
        elif isinstance(value, MethodType):
            self.add(name, value.__func__)
            self.add(f"{name}.__self__", value.__self__)
        elif isinstance(value, FunctionType) and is_users(value.__code__.co_filename):
            self._add_function(value)
        elif isinstance(value, type) and _is_users_class(value):
            self._add_class(value)

    def _add_class(self, cls: type) -> None:
        self.found[f"{cls.__module__}.{cls.__qualname__}"] = _source(cls)
        for base in cls.__bases__:
            self.add("", base)
        for each in vars(cls).values():
            inner = getattr(each, "__func__", None) or getattr(each, "fget", None) or each
            if isinstance(inner, FunctionType):
                self._reach(inner)
            elif isinstance(inner, type):
                self.add("", inner)

    def _add_function(self, function: FunctionType) -> None:
        with suppress(ValueError):  # it wraps itself
            function = inspect.unwrap(function)
        if isinstance(function, FunctionType):
            self.found[f"{function.__module__}.{function.__qualname__}"] = _source(function)
            self._reach(function)

    def _reach(self, function: FunctionType) -> None:
        """What a function reads from around it."""
        name = f"{function.__module__}.{function.__qualname__}"
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if variable != "__class__" and _is_filled(cell):
                self.add(f"{name}, {variable}", cell.cell_contents)
        for number, value in enumerate(function.__defaults__ or ()):
            self.add(f"{name}, default {number}", value)
        for variable, value in (function.__kwdefaults__ or {}).items():
            self.add(f"{name}, default {variable}", value)
        names = list(_names(function.__code__))
        for variable in names:
            if variable in function.__globals__:
                self._global(function.__module__, variable, function.__globals__[variable], names)

    def _global(self, module: str, variable: str, value: Any, names: list[str]) -> None:
        if isinstance(value, ModuleType):
            if is_users(getattr(value, "__file__", None) or "<none"):
                for name in names:
                    if name in vars(value) and not isinstance(vars(value)[name], ModuleType):
                        self._global(value.__name__, name, vars(value)[name], [])
            return
        text = _assigned(module, variable) if _is_plain(value) else None
        if text is not None:
            self.found[f"{module}.{variable}"] = text
        else:
            self.add(f"{module}.{variable}", value)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _names(code: CodeType) -> Iterator[str]:
    """Of all globals and attributes that a function and those inside it read."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_users_class(cls: type) -> bool:
    module = sys.modules.get(cls.__module__)
    return is_users(getattr(module, "__file__", None) or "<none") or cls.__module__ == "__main__"


def _source(thing: Any) -> str:
    """Without comments, docstrings and line breaks that mean nothing; of a function that has no source, its code."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):  # made by exec, or a lambda in the middle of a statement
        code = getattr(thing, "__code__", None)
        return f"code {_digest(_code_bytes(code))}" if code is not None else "no source"
    if getattr(thing, "__name__", "") == "<lambda>":  # its statement may be the recipe, whose fields are compared alone
        return "\n".join(ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Lambda))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _code_bytes(code: CodeType) -> bytes:
    inner = b"".join(_code_bytes(each) for each in code.co_consts if isinstance(each, CodeType))
    plain = repr([each for each in code.co_consts if not isinstance(each, CodeType)])
    return code.co_code + repr(code.co_names).encode() + plain.encode() + inner


def _assigned(module: str, variable: str) -> str | None:
    """The expression of a constant that depends on the clock or the process; None: its value counts."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == variable for t in node.targets):
            called = {getattr(each, "attr", getattr(each, "id", "")) for each in ast.walk(node.value)}
            return ast.unparse(node.value) if called & _CLOCKS else None
    return None


def _is_plain(value: Any) -> bool:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return True
    if isinstance(value, Mapping):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    return isinstance(value, (list, tuple, set, frozenset)) and all(map(_is_plain, value))


def _text(value: Any) -> str:
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(_text, value)))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_text(key)}: {_text(item)}' for key, item in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(_text, value))})"
    return repr(value) if _is_plain(value) else _name_of(value)


def _name_of(value: Any) -> str:
    """No addresses: they differ from process to process."""
    named = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{named}" if named else type(value).__qualname__


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}... {_digest(text.encode())}"


def _bytes_of(array: Any) -> str:
    array = array.detach().cpu().numpy() if hasattr(array, "detach") else array
    if array.dtype.hasobject:
        return f"{list(array.shape)} of objects"  # their bytes are addresses
    return f"{list(array.shape)} {_digest(array.tobytes())}"


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
