"""Is a .pt2 file nothing but a graph and its numbers? `torch.export.load` would also unpickle, call and evaluate what
it finds there.

Looked at before torch loads it, and refused if it holds
- numbers that are kept as pickles, or objects of classes;
- sample inputs that `weights_only=True` does not read;
- a call of anything but operations that compute, or such a thing as an argument;
- an expression or a guard over sizes that is more than arithmetic, or a name that is none: torch makes Python code of
them, and runs it.
"""

from __future__ import annotations

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

__all__ = ["trusted_graph", "trusted_script"]

_PLAIN: Final = re.compile(
    r"(data/weights/weight_\d+|data/constants/tensor_\d+|\.?data/(version|serialization_id)|archive_(format|version)|version|byteorder|\.format_version|\.storage_alignment)"
)
"""Files that are nothing but numbers or a word."""
_CONFIG: Final = re.compile(r"data/(weights|constants)/\w+_config\.json")
_GRAPH: Final = re.compile(r"models/\w+\.json")
_SAMPLE: Final = re.compile(r"data/sample_inputs/\w+\.pt")
_CALL: Final = re.compile(
    r"torch\.ops\.(aten|prims|higher_order|quantized|quantized_decomposed|torchao|torchvision|onednn|mkldnn|trueloop)\.(?!save$|save\.|from_file)"
    r"((?!__)\w+|__i?(and|or|xor|lshift|rshift)__)(\.(?!_)\w+)?"
    r"|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|neg|pow|eq|ne|ge|gt|le|lt|and_|or_|not_)"
    r"|torch\.sym_\w+|math\.(ceil|floor|trunc|sqrt)"
)
"""Operations that compute; two of aten's write or map files."""
_FILES: Final = re.compile(r"\b(save|from_file|load_library)\s*\(")
"""What TorchScript could reach files by."""
_NAME: Final = re.compile(r"([A-Za-z_][\w.]*)?")
"""Names become names in Python code that torch writes and runs."""
_FUNCTIONS: Final = re.compile(
    r"Symbol|Integer|Rational|Float|Add|Mul|Pow|Abs|Max|Min|Mod|PythonMod|FloorDiv|CleanDiv|CeilDiv|ModularIndexing|Where|Piecewise|Identity"
    r"|CeilToInt|FloorToInt|RoundToInt|TruncToInt|TruncToFloat|ToFloat|IntTrueDiv|FloatTrueDiv|FloatPow|PowByNatural"
    r"|Eq|Ne|Ge|Gt|Le|Lt|And|Or|Not|floor|ceiling"
    r"|Equality|Unequality|GreaterThan|LessThan|StrictGreaterThan|StrictLessThan"
)
"""What an expression of sizes may call."""
_SIZES: Final = frozenset(("size", "stride", "storage_offset"))
"""What a guard may ask a tensor for."""
LARGEST_POWER: Final = 8
"""That a size is raised to; sizes are squared, or halved."""
UNPACKED: Final = 1 << 26
"""Bytes that the packed files of an archive may have together: code, which is text, has far fewer."""
_PARTS: Final = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword, ast.Name, ast.Constant, ast.Tuple,
                 ast.Subscript, ast.Attribute, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)  # fmt: skip


_BROKEN: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RuntimeError,
    OSError,
)
"""What an archive that is damaged, locked (RuntimeError), too deep (RecursionError) or about something else makes
Python raise."""


def trusted_graph(file: Path) -> None:
    """Raises BadArtifact; nothing in the file is run."""
    try:
        with zipfile.ZipFile(file) as archive:
            for name in _names(archive, file):
                reason = _refused(str(PurePosixPath(*PurePosixPath(name).parts[1:])), archive, name)
                if reason:
                    raise BadArtifact(
                        f"{file} is not safe to load and was refused; nothing in it was run: {name} {reason}."
                    )
    except _BROKEN as error:
        raise BadArtifact(f"{file} is no graph of torch.export ({error}). Nothing was run.") from None


def trusted_script(file: Path) -> None:
    """The same for TorchScript, whose loading unpickles into no class of Python's, and compiles the code that lies
    beside."""
    try:
        with zipfile.ZipFile(file) as archive:
            for name in _names(archive, file):
                found = _FILES.search(archive.read(name).decode("utf-8", "replace")) if name.endswith(".py") else None
                if found:
                    raise BadArtifact(
                        f"{file} is not safe to load and was refused; nothing in it was run: {name} calls {found[1]}."
                    )
    except _BROKEN as error:
        raise BadArtifact(f"{file} is no TorchScript archive ({error}). Nothing was run.") from None


def _names(archive: zipfile.ZipFile, file: Path) -> list[str]:
    """Each once: of a name that is there twice torch takes the first and Python the last, and torch does not tell A
    from a."""
    names = archive.namelist()
    if _is_bomb(archive.infolist(), file.stat().st_size):
        raise BadArtifact(
            f"{file} is not safe to load and was refused; nothing in it was run: unpacked it is far larger than it says."
        )
    if len({name.lower() for name in names}) < len(names):
        raise BadArtifact(
            f"{file} is not safe to load and was refused; nothing in it was run: it holds two files of one name."
        )
    return names


def _is_bomb(entries: list[zipfile.ZipInfo], size: int) -> bool:
    """torch packs nothing but code: what is packed is small, what is not has its own size, and all of it together lies
    in the file."""
    packed = sum(each.file_size for each in entries if each.compress_type != zipfile.ZIP_STORED)
    stored = all(each.file_size == each.compress_size for each in entries if each.compress_type == zipfile.ZIP_STORED)
    return packed > UNPACKED or not stored or sum(each.compress_size for each in entries) > size


def _refused(inside: str, archive: zipfile.ZipFile, name: str) -> str:
    if _PLAIN.fullmatch(inside):
        return ""
    if _CONFIG.fullmatch(inside):
        return _pickles(json.loads(archive.read(name)))
    if _GRAPH.fullmatch(inside):
        return _calls(json.loads(archive.read(name)))
    if _SAMPLE.fullmatch(inside):
        return _sample(archive.read(name))
    return "is no part of a plain graph"


def _pickles(config: Any) -> str:
    entries = config["config"].values()
    if any(entry["use_pickle"] or not re.fullmatch(r"(weight|tensor)_\d+", entry["path_name"]) for entry in entries):
        return "keeps objects as pickles"
    return ""


def _sample(data: bytes) -> str:
    if not data:
        return ""
    try:
        torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - whatever torch finds wrong, torch.export.load would go on without weights_only
        return f"holds more than tensors ({type(error).__name__})"
    return ""


def _calls(graph: Any) -> str:
    for key, value in _strings(graph):
        if key in ("target", "as_operator") and not _CALL.fullmatch(value):
            return f"calls {value[:80]}"
        if key in ("expr_str", "guards_code") and not _is_arithmetic(value):
            return f"evaluates {value[:80]}"
        if key in ("name", "forward_arg_names") and not _NAME.fullmatch(value):
            return f"names something {value[:80]}"
    return ""


def _is_arithmetic(text: str) -> bool:
    """Numbers, names, sizes of tensors, and what can be computed of them: nothing that reaches anything else."""
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
    """Sizes are squared or halved; a tower of powers would be computed for ever."""
    exponent = part.right if isinstance(part, ast.BinOp) else part.args[1] if len(part.args) == 2 else None
    inner = exponent.args[0] if isinstance(exponent, ast.Call) and exponent.args else exponent
    inner = inner.operand if isinstance(inner, ast.UnaryOp) else inner
    return (
        isinstance(inner, ast.Constant) and isinstance(inner.value, (int, float)) and abs(inner.value) <= LARGEST_POWER
    )


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every string of the graph with the name that it stands under, but for what a layer was called where it was
    written."""
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
