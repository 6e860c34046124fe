"""Archives of strangers, as torch may load them: checked, and packed again from what was checked.

torch and Python read zip files by different rules (duplicate names, upper and lower case, Unicode names in extra
fields), so a file that Python has checked need not be the one that torch loads. Therefore torch never sees the
original: it gets a new archive of the names and bytes that were checked here.

A .pt2 file is refused if it holds anything but weights, sample inputs that `weights_only=True` reads, and graphs that
`graph_schema` allows: `torch.export.load` would unpickle, import, call and evaluate what it names.
"""

import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

import torch

from trueloop.errors import BadArtifact
from trueloop.export.graph_schema import NotAllowed, allowed_graph, allowed_payload

__all__ = ["safe_graph", "safe_script"]

_RAW: Final = re.compile(
    r"data/weights/weight_\d+|data/constants/tensor_\d+|\.?data/(version|serialization_id)"
    r"|archive_(format|version)|version|byteorder|\.format_version|\.storage_alignment"
)
"""Files that hold raw numbers or one word."""
_CONFIG: Final = re.compile(r"data/(weights|constants)/\w+_config\.json")
_GRAPH: Final = re.compile(r"models/\w+\.json")
_SAMPLE: Final = re.compile(r"data/sample_inputs/\w+\.pt")

_SCRIPT: Final = re.compile(
    r"(data|constants|attributes)\.pkl|(data|constants)/\d+|\.?data/(version|serialization_id)"
    r"|version|byteorder|\.format_version|\.storage_alignment|producedBy"
)
_CODE: Final = re.compile(r"code/[\w/]+\.py")
_LEFT_OUT: Final = re.compile(r"code/[\w/]+\.py\.debug_pkl|traced_inputs(\.pkl|/\d+)")  # For error messages only
_FILES: Final = re.compile(r"\b(from_file|load_library|read_file|write_file)\b|(?:(?<![\w.])|\btorch\s*\.\s*)(save)\b")
"""Words of TorchScript that access files, however they are called: `(torch.from_file)(...)` is a call, too. A module of
the model may have the name save."""
_NAMESPACES: Final = re.compile(r"\bops\s*\.\s*(?!(aten|prim|quantized|torchvision)\b)\w+")

UNPACKED: Final = 1 << 26  # Bytes of all compressed files of an archive together. torch compresses only code.
_LOOKUP: Final = (ValueError, KeyError, TypeError, AttributeError)
_BROKEN: Final = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, *_LOOKUP)
"""Raised for a damaged, encrypted (RuntimeError), too deeply nested (RecursionError) or unrelated archive."""


def safe_graph(file: Path, opened: BinaryIO | None = None) -> io.BytesIO:
    """For torch.export.load. Raises BadArtifact; nothing in the file is executed. `opened`: the file, where its path
    cannot be."""
    return _packed_again(file, "a torch.export file", _part_of_graph, opened)


def safe_script(file: Path) -> io.BytesIO:
    """For torch.jit.load, which unpickles no Python classes but compiles the code in the archive."""
    return _packed_again(file, "a TorchScript archive", _part_of_script)


def _packed_again(
    file: Path, kind: str, part: Callable[[str, bytes], bytes | None], opened: BinaryIO | None = None
) -> io.BytesIO:
    packed = io.BytesIO()
    try:
        with zipfile.ZipFile(opened or file) as archive, zipfile.ZipFile(packed, "w") as clean:
            for name, inside in _names(archive, file):
                try:
                    data = part(inside, archive.read(name))
                except NotAllowed as error:
                    raise _unsafe(file, f"{inside} {error}") from None
                if data is not None:
                    clean.writestr(f"archive/{inside}", data)
    except _BROKEN as error:
        raise BadArtifact(f"{file} is not {kind} ({error}). Nothing was run.") from None
    packed.seek(0)
    return packed


def _unsafe(file: Path, reason: str) -> BadArtifact:
    return BadArtifact(f"{file} is not safe to load and was refused; nothing in it was executed: {reason}.")


def _names(archive: zipfile.ZipFile, file: Path) -> Iterator[tuple[str, str]]:
    """The names of its files, and the same within the archive's own folder."""
    assert archive.fp is not None
    if _is_bomb(archive.infolist(), archive.fp.seek(0, io.SEEK_END)):
        raise _unsafe(file, "it unpacks to far more bytes than it declares")
    seen: set[str] = set()
    for name in archive.namelist():
        inside = str(PurePosixPath(*PurePosixPath(name).parts[1:]))
        if inside.lower() in seen:
            raise _unsafe(file, "it holds two files of the same name")
        seen.add(inside.lower())
        yield name, inside


def _is_bomb(entries: list[zipfile.ZipInfo], size: int) -> bool:
    """torch compresses only code: compressed files are small, stored ones have their size, all fit into the file."""
    packed = sum(each.file_size for each in entries if each.compress_type != zipfile.ZIP_STORED)
    stored = all(each.file_size == each.compress_size for each in entries if each.compress_type == zipfile.ZIP_STORED)
    return packed > UNPACKED or not stored or sum(each.compress_size for each in entries) > size


def _part_of_graph(inside: str, data: bytes) -> bytes | None:
    """What of it belongs into the new archive. Raises NotAllowed."""
    if _RAW.fullmatch(inside):
        return data
    if _CONFIG.fullmatch(inside):
        return json.dumps(allowed_payload(json.loads(data))).encode()
    if _GRAPH.fullmatch(inside):
        return json.dumps(allowed_graph(json.loads(data))).encode()
    if _SAMPLE.fullmatch(inside):
        _check_sample(data)
        return data
    raise NotAllowed("is not part of an exported graph")


def _check_sample(data: bytes) -> None:
    if not data:
        return
    try:
        torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - torch.export.load would retry without weights_only
        raise NotAllowed(f"holds more than tensors ({type(error).__name__})") from None


def _part_of_script(inside: str, data: bytes) -> bytes | None:
    if _SCRIPT.fullmatch(inside):
        return data
    if _LEFT_OUT.fullmatch(inside):
        return None
    if not _CODE.fullmatch(inside):
        raise NotAllowed("is not part of a TorchScript archive")
    code = data.decode("utf-8").replace("\\\n", " ")
    if found := _FILES.search(code):
        raise NotAllowed(f"calls {found[1] or found[2]}")
    if found := _NAMESPACES.search(code):
        raise NotAllowed(f"calls {found[0]}, which is not an operation of torch")
    return data
