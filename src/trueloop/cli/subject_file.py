"""`file.py:name` on the command line: the object of that name in a user's file; and `torch.relu`, by its path."""

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from trueloop.errors import Misuse, did_you_mean
from trueloop.recipes.catalogue import load_file

__all__ = ["NAMED", "named_object", "object_in_file"]

NAMED: Final = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_][\w.]*)")


def object_in_file(word: str) -> tuple[Any, ModuleType]:
    """The object, and the module that the file became. Errors of the user's own code pass through."""
    found = NAMED.fullmatch(word)
    if found is None:
        raise Misuse(f"{word!r} names nothing. Nothing was run: type `file.py:name`.")
    module = load_file(Path(found["file"]))
    value: Any = module
    for part in found["name"].split("."):
        if not hasattr(value, part):
            near = did_you_mean(part, [name for name in vars(value) if not name.startswith("_")])
            raise Misuse(f"{found['file']} has no {found['name']!r}.{near} Nothing was run.")
        value = getattr(value, part)
    return value, module


def named_object(word: str, option: str, module: ModuleType) -> Any:
    """A function, by `file.py:name`, by a name in the user's file, or by its path: torch.nn.functional.relu."""
    if NAMED.fullmatch(word):
        value = object_in_file(word)[0]
    elif word.isidentifier() and hasattr(module, word):
        value = getattr(module, word)
    else:
        value = _imported(word, option)
    if not callable(value):
        raise Misuse(f"{option} {word} is a {type(value).__name__} and cannot be called. Nothing was run.")
    return value


def _imported(word: str, option: str) -> Any:
    parts = word.split(".")
    try:
        value: Any = import_module(parts[0])
    except (ImportError, ValueError):
        raise Misuse(f"{option} {word}: {parts[0]!r} is neither in the file nor a module. Nothing was run.") from None
    for number, part in enumerate(parts[1:], 1):
        if hasattr(value, part):
            value = getattr(value, part)
            continue
        try:
            value = import_module(".".join(parts[: number + 1]))
        except ImportError:
            near = did_you_mean(part, dir(value))
            raise Misuse(f"{option} {word}: there is no {part!r} there.{near} Nothing was run.") from None
    return value
