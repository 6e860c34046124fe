"""What the JSON of a .pt2 file may say: every field by torch's own schema, every text by a list of what is allowed.

torch imports modules, evaluates expressions and generates Python code by what stands in this JSON. So nothing passes
that is unknown: `allowed_graph` returns a copy that holds only fields of the schema, with texts that were checked,
and without metadata, which no computation needs.
"""

import ast
import enum
import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Final

from trueloop.torch_private.export_schema import ExportedProgram, PayloadConfig, Union

__all__ = ["NotAllowed", "allowed_graph", "allowed_payload", "is_arithmetic"]


class NotAllowed(Exception):
    """With what was found, as the end of a sentence: 'calls torch.hub.load'."""


def allowed_graph(plain: Any) -> Any:
    """Raises NotAllowed."""
    return _allowed(plain, ExportedProgram, "")


def allowed_payload(plain: Any) -> Any:
    """The table of weights or constants. Raises NotAllowed."""
    cleaned = _allowed(plain, PayloadConfig, "")
    if any(entry["use_pickle"] for entry in cleaned["config"].values()):
        raise NotAllowed("holds pickled objects")
    return cleaned


_REFUSED: Final = frozenset(("custom_obj_values", "as_custom_obj", "custom_obj", "treespec_namedtuple_fields"))
"""Fields that name classes."""
_EMPTIED: Final = frozenset(("metadata",))  # Source lines and names of modules, some of which torch imports
_PLAIN: Final = (bool, int, float, str, type(None))


def _allowed(value: Any, kind: Any, field: str) -> Any:
    if field in _EMPTIED:
        return {}
    if field in _REFUSED:
        if value:
            raise NotAllowed(f"names classes of Python objects ({field})")
        return value
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _allowed(value, next(each for each in inner if each is not type(None)), field)
    if origin is list:
        return [_allowed(each, inner[0], field) for each in _of(value, list, field)]
    if origin is dict:
        entries = _of(value, dict, field).items()
        return {_text(name, "name"): _allowed(each, inner[1], "") for name, each in entries}
    if is_dataclass(kind):
        return _object(_of(value, dict, field), kind)
    return _leaf(value, kind, field)


def _object(value: Mapping[str, Any], kind: Any) -> dict[str, Any]:
    known = _types(kind)
    if strange := next((name for name in value if name not in known), None):
        raise NotAllowed(f"holds the unknown field {strange[:80]!r}")
    if issubclass(kind, Union) and len(value) != 1:
        raise NotAllowed(f"holds {len(value)} values where one belongs")
    return {name: _allowed(each, known[name], name) for name, each in value.items()}


@lru_cache(maxsize=256)
def _types(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _of(value: Any, kind: type, field: str) -> Any:
    if not isinstance(value, kind):
        raise NotAllowed(f"holds a {type(value).__name__} as {field or 'its content'}")
    return value


def _leaf(value: Any, kind: Any, field: str) -> Any:
    if kind is str:
        return _text(_of(value, str, field), field)
    if isinstance(kind, type) and issubclass(kind, enum.IntEnum):
        kind = int
    # A float may be written as 1 or as "Infinity".
    fits = type(value) in (int, float, str) if kind is float else type(value) is kind
    if kind not in _PLAIN or not fits or (kind is float and isinstance(value, str) and not _FLOAT.fullmatch(value)):
        raise NotAllowed(f"holds {str(value)[:80]!r} as {field}")
    return value


# -- texts --

_FLOAT: Final = re.compile(r"-?Infinity|NaN|-?inf|nan")
_NAME: Final = re.compile(r"([A-Za-z_][\w.]*)?")  # torch generates Python code with these names and runs it
_CALL: Final = re.compile(
    r"torch\.ops\.(aten|prims|higher_order|quantized|quantized_decomposed|torchao|torchvision|onednn|mkldnn|trueloop)"
    r"\.(?!save$|save\.|from_file)"
    r"((?!__)\w+|__i?(and|or|xor|lshift|rshift)__)(\.(?!_)\w+)?"
    r"|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|neg|pow|eq|ne|ge|gt|le|lt|and_|or_|not_)"
    r"|torch\.sym_\w+|math\.(ceil|floor|trunc|sqrt)"
)
"""Operations that compute. aten::save and aten::from_file access files."""
_ARGUMENT: Final = re.compile(r"[ -~]{0,1000}")  # A word for an operation, such as the equation of einsum
_VERSION: Final = re.compile(r"[\w.+<=-]{0,80}")
_FILE: Final = re.compile(r"(weight|tensor)_\d+")


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise NotAllowed(f"holds a {type(value).__name__} as {field}")
    wrong = _TEXTS.get(field, _wrong_name)(value)
    if wrong:
        raise NotAllowed(f"{wrong} {value[:80]}")
    return value


def _wrong_name(value: str) -> str:
    return "" if _NAME.fullmatch(value) else "holds the invalid name"


def _wrong_call(value: str) -> str:
    return "" if _CALL.fullmatch(value) else "calls"


def _wrong_expression(value: str) -> str:
    return "" if is_arithmetic(value) else "evaluates"


def _wrong_tree(value: str) -> str:
    try:
        version, tree = json.loads(value)
        return "" if version == 1 and _is_tree(tree) else "builds outputs of the type"
    except (ValueError, TypeError, RecursionError):
        return "describes its outputs as"


def _unless(pattern: re.Pattern[str], wrong: str) -> Callable[[str], str]:
    return lambda value: "" if pattern.fullmatch(value) else wrong


_TEXTS: Final[Mapping[str, Callable[[str], str]]] = {
    "target": _wrong_call,
    "as_operator": _wrong_call,
    "expr_str": _wrong_expression,
    "guards_code": _wrong_expression,
    "in_spec": _wrong_tree,
    "out_spec": _wrong_tree,
    "as_string": _unless(_ARGUMENT, "holds the argument"),
    "as_strings": _unless(_ARGUMENT, "holds the argument"),
    "torch_version": _unless(_VERSION, "holds the version"),
    "path_name": _unless(_FILE, "names the file"),
}
"""Field -> what is wrong with a text in it. All other texts are names."""

_TREES: Final = frozenset(("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"))


def _is_tree(tree: Any) -> bool:
    """A nest of tuples, lists and dicts with words or numbers as keys. torch imports what other types name."""
    if not isinstance(tree, dict) or set(tree) != {"type", "context", "children_spec"}:
        return False
    if tree["type"] is None:
        return tree["context"] is None and tree["children_spec"] == []
    keys = json.loads(tree["context"]) if isinstance(tree["context"], str) else None
    plain = keys is None or (isinstance(keys, list) and all(type(each) in (str, int) for each in keys))
    children = tree["children_spec"]
    return tree["type"] in _TREES and plain and isinstance(children, list) and all(map(_is_tree, children))


# -- expressions over sizes --

_FUNCTIONS: Final = re.compile(
    r"Symbol|Integer|Rational|Float|Add|Mul|Pow|Abs|Max|Min|Mod|PythonMod|FloorDiv|CleanDiv|CeilDiv|ModularIndexing"
    r"|Where|Piecewise|Identity|CeilToInt|FloorToInt|RoundToInt|TruncToInt|TruncToFloat|ToFloat|IntTrueDiv|FloatTrueDiv"
    r"|FloatPow|PowByNatural|Eq|Ne|Ge|Gt|Le|Lt|And|Or|Not|floor|ceiling"
    r"|Equality|Unequality|GreaterThan|LessThan|StrictGreaterThan|StrictLessThan"
)
_SIZES: Final = frozenset(("size", "stride", "storage_offset"))  # Tensor methods allowed in a guard
LARGEST_POWER: Final = 8  # Largest exponent of a size
LONGEST: Final = 10_000  # Characters of an expression: Python's parser overflows on deeper ones
_EXPRESSIONS: Final = (
    "Expression BinOp UnaryOp BoolOp Compare Call keyword Name Constant Tuple Subscript Attribute operator unaryop "
    "boolop cmpop expr_context"
)
_PARTS: Final = tuple(getattr(ast, name) for name in _EXPRESSIONS.split())  # Syntax allowed in an expression


def is_arithmetic(text: str) -> bool:
    """Only numbers, names, tensor sizes and arithmetic on them."""
    if len(text) > LONGEST:
        return False
    try:
        parts = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        return False
    return all(isinstance(part, _PARTS) and _is_harmless(part) for part in parts)


def _is_harmless(part: ast.AST) -> bool:
    match part:
        case ast.BinOp(op=ast.Pow() | ast.LShift()) | ast.Call(func=ast.Name(id="Pow" | "PowByNatural" | "FloatPow")):
            return _is_small_power(part)
        case ast.Call(func=ast.Name(id=name)):
            return _FUNCTIONS.fullmatch(name) is not None
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Attribute(attr=name):
            return name in _SIZES
        case ast.Call():
            return False
        case ast.Name(id=name):
            return "__" not in name
        case ast.Constant(value=str() as text):
            return _NAME.fullmatch(text) is not None
        case _:
            return True


def _is_small_power(part: ast.BinOp | ast.Call) -> bool:
    """A tower of powers would never finish."""
    exponent = part.right if isinstance(part, ast.BinOp) else part.args[1] if len(part.args) == 2 else None
    inner = exponent.args[0] if isinstance(exponent, ast.Call) and exponent.args else exponent
    inner = inner.operand if isinstance(inner, ast.UnaryOp) else inner
    value = inner.value if isinstance(inner, ast.Constant) else None
    return isinstance(value, (int, float)) and abs(value) <= LARGEST_POWER
