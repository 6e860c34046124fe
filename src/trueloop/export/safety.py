"""Refuses files that execute code when loaded. `torch.export.load` unpickles, calls and evaluates what a .pt2 contains.

A .pt2 file is refused before torch loads it if it holds
- pickled tensors or objects;
- sample inputs that `weights_only=True` does not read;
- calls of anything but operations that compute, or such a call as an argument;
- an expression or guard over sizes that is more than arithmetic, or an invalid name: torch turns them into Python code.
"""

import ast
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

import torch

from trueloop.errors import BadArtifact

__all__ = ["refuse_unsafe_graph", "refuse_unsafe_script"]

_PLAIN: Final = re.compile(
    r"data/weights/weight_\d+|data/constants/tensor_\d+|\.?data/(version|serialization_id)"
    r"|archive_(format|version)|version|byteorder|\.format_version|\.storage_alignment"
)
"""Files that hold raw numbers or one word."""
_CONFIG: Final = re.compile(r"data/(weights|constants)/\w+_config\.json")
_GRAPH: Final = re.compile(r"models/\w+\.json")
_SAMPLE: Final = re.compile(r"data/sample_inputs/\w+\.pt")
_CALL: Final = re.compile(
    r"torch\.ops\.(aten|prims|higher_order|quantized|quantized_decomposed|torchao|torchvision|onednn|mkldnn|trueloop)"
    r"\.(?!save$|save\.|from_file)"
    r"((?!__)\w+|__i?(and|or|xor|lshift|rshift)__)(\.(?!_)\w+)?"
    r"|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|neg|pow|eq|ne|ge|gt|le|lt|and_|or_|not_)"
    r"|torch\.sym_\w+|math\.(ceil|floor|trunc|sqrt)"
)
"""Operations that compute. aten::save and aten::from_file access files."""
_FILES: Final = re.compile(r"\b(save|from_file|load_library)\s*\(")  # TorchScript calls that access files
_NAME: Final = re.compile(r"([A-Za-z_][\w.]*)?")  # torch generates Python code with these names and runs it
_FUNCTIONS: Final = re.compile(
    r"Symbol|Integer|Rational|Float|Add|Mul|Pow|Abs|Max|Min|Mod|PythonMod|FloorDiv|CleanDiv|CeilDiv|ModularIndexing"
    r"|Where|Piecewise|Identity|CeilToInt|FloorToInt|RoundToInt|TruncToInt|TruncToFloat|ToFloat|IntTrueDiv|FloatTrueDiv"
    r"|FloatPow|PowByNatural|Eq|Ne|Ge|Gt|Le|Lt|And|Or|Not|floor|ceiling"
    r"|Equality|Unequality|GreaterThan|LessThan|StrictGreaterThan|StrictLessThan"
)
"""Functions allowed in an expression over sizes."""
_SIZES: Final = frozenset(("size", "stride", "storage_offset"))  # Tensor methods allowed in a guard
LARGEST_POWER: Final = 8  # Largest exponent of a size
UNPACKED: Final = 1 << 26  # Bytes of all compressed files of an archive together. torch compresses only code.
_EXPRESSIONS: Final = (
    "Expression BinOp UnaryOp BoolOp Compare Call keyword Name Constant Tuple Subscript Attribute operator unaryop "
    "boolop cmpop expr_context"
)
_PARTS: Final = tuple(getattr(ast, name) for name in _EXPRESSIONS.split())  # Syntax allowed in an expression over sizes
_LOOKUP: Final = (ValueError, KeyError, TypeError, AttributeError)
_BROKEN: Final = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, *_LOOKUP)
"""Raised for a damaged, encrypted (RuntimeError), too deeply nested (RecursionError) or unrelated archive."""


def refuse_unsafe_graph(file: Path) -> None:
    """Raises BadArtifact; nothing in the file is executed."""
    try:
        with zipfile.ZipFile(file) as archive:
            for name in _names(archive, file):
                reason = _refusal(str(PurePosixPath(*PurePosixPath(name).parts[1:])), archive, name)
                if reason:
                    raise _unsafe(file, f"{name} {reason}")
    except _BROKEN as error:
        raise BadArtifact(f"{file} is not a torch.export file ({error}). Nothing was run.") from None


def refuse_unsafe_script(file: Path) -> None:
    """The same for TorchScript, which unpickles no Python classes but compiles the code in the archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            for name in _names(archive, file):
                found = _FILES.search(archive.read(name).decode("utf-8", "replace")) if name.endswith(".py") else None
                if found:
                    raise _unsafe(file, f"{name} calls {found[1]}")
    except _BROKEN as error:
        raise BadArtifact(f"{file} is not a TorchScript archive ({error}). Nothing was run.") from None


def _unsafe(file: Path, reason: str) -> BadArtifact:
    return BadArtifact(f"{file} is not safe to load and was refused; nothing in it was executed: {reason}.")


def _names(archive: zipfile.ZipFile, file: Path) -> list[str]:
    """Unique names: of duplicates torch reads the first and Python the last, and torch ignores case."""
    names = archive.namelist()
    if _is_bomb(archive.infolist(), file.stat().st_size):
        raise _unsafe(file, "it unpacks to far more bytes than it declares")
    if len({name.lower() for name in names}) < len(names):
        raise _unsafe(file, "it holds two files of the same name")
    return names


def _is_bomb(entries: list[zipfile.ZipInfo], size: int) -> bool:
    """torch compresses only code: compressed files are small, stored ones have their size, all fit into the file."""
    packed = sum(each.file_size for each in entries if each.compress_type != zipfile.ZIP_STORED)
    stored = all(each.file_size == each.compress_size for each in entries if each.compress_type == zipfile.ZIP_STORED)
    return packed > UNPACKED or not stored or sum(each.compress_size for each in entries) > size


def _refusal(inside: str, archive: zipfile.ZipFile, name: str) -> str:
    if _PLAIN.fullmatch(inside):
        return ""
    if _CONFIG.fullmatch(inside):
        return _pickles(json.loads(archive.read(name)))
    if _GRAPH.fullmatch(inside):
        return _calls(json.loads(archive.read(name)))
    if _SAMPLE.fullmatch(inside):
        return _sample(archive.read(name))
    return "is not part of an exported graph"


def _pickles(config: Any) -> str:
    entries = config["config"].values()
    if any(entry["use_pickle"] or not re.fullmatch(r"(weight|tensor)_\d+", entry["path_name"]) for entry in entries):
        return "holds pickled objects"
    return ""


def _sample(data: bytes) -> str:
    if not data:
        return ""
    try:
        torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - torch.export.load would retry without weights_only
        return f"holds more than tensors ({type(error).__name__})"
    return ""


def _calls(graph: Any) -> str:
    for key, value in _strings(graph):
        if key in ("target", "as_operator") and not _CALL.fullmatch(value):
            return f"calls {value[:80]}"
        if key in ("expr_str", "guards_code") and not _is_arithmetic(value):
            return f"evaluates {value[:80]}"
        if key in ("name", "forward_arg_names") and not _NAME.fullmatch(value):
            return f"holds the invalid name {value[:80]}"
    return ""


def _is_arithmetic(text: str) -> bool:
    """Only numbers, names, tensor sizes and arithmetic on them."""
    try:
        parts = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, RecursionError, MemoryError):
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


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every string of the graph with its key, except the metadata, which holds source names."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield "name", name
            if name == "signature" and isinstance(item, dict) and "input_specs" in item:
                yield from (pair for pair in _strings(item) if pair[0] != "target")  # there it names a buffer
            elif name != "metadata":
                yield from _strings(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)
