"""Request bodies -> arrays: nested lists, base64, text, table rows, images. Each is checked against the artifact's
ports; a refusal names the value and the reason."""

import base64
import binascii
import io
import json
import math
import re
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NoReturn, final

import numpy as np
import orjson

from trueloop.data.pixel_range import match_range
from trueloop.data.table_rows import encode_cell, is_one_hot
from trueloop.errors import BadArtifact, MissingExtra, did_you_mean
from trueloop.export.exporter import Array
from trueloop.results.artifact import Artifact, Port
from trueloop.serve.batching import Sample
from trueloop.serve.limits import Limits, Refused

__all__ = [
    "MODES", "Encode", "Inputs", "column_range", "encoding_of", "packed", "parsed", "picture", "row_of", "scaled",
]  # fmt: skip

QUOTED: Final = 40  # Characters of a value that an error quotes
LONG: Final = re.compile(rb"[0-9]{19}")  # A number that may need more than 64 bits
Encode = Callable[[str], Sequence[int]]
FORMATS: Final = ("PNG", "JPEG")  # Pillow has dozens of other decoders, each of them an attack surface
MODES: Final[Mapping[int, str]] = {1: "L", 3: "RGB", 4: "RGBA"}


def picture(data: bytes, preprocessing: Mapping[str, Any], *, pixels: int, resize: bool) -> Array:
    """[channels, height, width], uint8. Raises Refused."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingExtra("Images need pillow, which is not installed: pip install 'trueloop[serve]'") from None

    height, width = preprocessing["size"]
    too_large = Refused(422, f"The image has more than {pixels:,} pixels, the limit of this server.")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            if opened.width * opened.height > pixels:
                raise too_large
            image = ImageOps.exif_transpose(opened).convert(MODES[preprocessing["channels"]])
    except (Refused, Image.DecompressionBombError):
        raise too_large from None
    except Exception:  # noqa: BLE001 - any error of pillow means that the file is bad
        raise Refused(422, "The image cannot be read: not a PNG or JPEG, damaged, or truncated.") from None
    if image.size != (width, height):
        if not resize:
            sizes = f"{image.width} x {image.height} and the model takes {width} x {height}"
            raise Refused(422, f"The image is {sizes}: resize it, or add ?resize=true.")
        image = image.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return scaled(np.asarray(image), preprocessing)


def scaled(points: Array, preprocessing: Mapping[str, Any]) -> Array:
    """[height, width] or [height, width, channels] -> the layout and range of the model's raw samples."""
    channels_first = points[None] if points.ndim == 2 else np.moveaxis(points, -1, 0)
    channels_first = match_range(channels_first, preprocessing["range"][1])
    return np.ascontiguousarray(channels_first)


def row_of(row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], port: Port, where: str) -> Array:
    """Raises Refused: a column is missing, unknown, or has the wrong type."""
    names = [column["name"] for column in columns]
    unknown = next((name[:80] for name in row if name not in names), None)
    if unknown is not None:
        raise Refused(422, f"{where} has an unknown column {unknown!r}.{did_you_mean(unknown, names)}")
    missing = next((name for name in names if name not in row), None)
    if missing is not None:
        raise Refused(422, f"{where} has no column {missing!r}.")
    one_hot = is_one_hot(columns, port.shape[-1] or 0)
    cells = ((column, row[column["name"]], f"{where}.{column['name']}") for column in columns)
    values = [value for column, cell, place in cells for value in _encode(column, cell, one_hot, place, port)]
    return np.array(values, port.dtype)


def column_range(column: Mapping[str, Any], port: Port) -> tuple[float, float]:
    """Numbers outside it would not be finite after scaling."""
    furthest = min(float(column["spread"]) * float(np.finfo(port.dtype).max) / 2, sys.float_info.max / 4)
    return column["mean"] - furthest, column["mean"] + furthest


def _encode(column: Mapping[str, Any], value: Any, one_hot: bool, where: str, port: Port) -> Iterator[float]:
    if column["kind"] == "number":
        lowest, highest = column_range(column, port)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not lowest <= value <= highest:
            raise Refused(422, f"{where} must be a number from {lowest:g} to {highest:g}.")
    elif not isinstance(value, str):
        raise Refused(422, f"{where} must be a string.")
    yield from encode_cell(column, value, one_hot)


def encoding_of(preprocessing: Mapping[str, Any]) -> Encode | None:
    """None: the artifact has no encoding, and callers send numbers. Raises BadArtifact if it is damaged."""
    try:
        match preprocessing.get("encoding"):
            case "bytes":
                return lambda text: list(text.encode("utf-8", "surrogatepass"))
            case "words":
                from trueloop.data.text import Vocabulary

                return Vocabulary.read(preprocessing).row
            case "tokens" if all(isinstance(token, str) and len(token) == 1 for token in preprocessing["vocabulary"]):
                numbers = {letter: at for at, letter in enumerate(preprocessing["vocabulary"])}
                return lambda text: [numbers.get(letter, -1) for letter in text]  # -1 is rejected as an unknown token
            case _:
                return None
    except (KeyError, TypeError, ValueError):
        raise BadArtifact("The artifact's text encoding is damaged. Nothing was run. Export the run again.") from None


@final
class Inputs:
    def __init__(self, artifact: Artifact, limits: Limits) -> None:
        self.artifact, self.limits = artifact, limits
        self.ports = artifact.inputs
        self.preprocessing = artifact.preprocessing
        inside = bool(self.preprocessing.get("inside"))
        self.encode: Encode | None = encoding_of(self.preprocessing) if self.preprocessing["kind"] == "tokens" else None
        self.takes_pictures = self.preprocessing["kind"] == "image" and inside and len(self.ports) == 1
        columns = self.preprocessing.get("columns", ()) if len(self.ports) == 1 else ()
        self.columns: list[Mapping[str, Any]] = list(columns)  # Columns of a table
        self.exact = any(port.dtype in ("int64", "uint64") for port in self.ports)
        """Does it take integers that a float cannot represent?"""

    # -- requests --

    def of_json(self, body: bytes) -> list[Sample]:
        told = parsed(body, self.exact)
        if not isinstance(told, dict) or len(told) != 1 or next(iter(told)) not in ("input", "inputs"):
            raise Refused(422, 'The JSON must be {"input": SAMPLE} or {"inputs": [SAMPLE, ...]} and nothing else.')
        if "input" in told:
            return [self.sample(told["input"], "input")]
        many = told["inputs"]
        if not isinstance(many, list) or not 1 <= len(many) <= self.limits.queue:
            raise Refused(422, f"inputs must be a list of 1 to {self.limits.queue:,} samples.")
        return [self.sample(one, f"inputs[{at}]") for at, one in enumerate(many)]

    def of_text(self, body: bytes) -> list[Sample]:
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused(400, "The text is not UTF-8.") from None
        return [self.sample(text, "The text")]

    def of_picture(self, body: bytes, *, resize: bool, where: str = "The body") -> Sample:
        if not self.takes_pictures:
            raise Refused(415, f"{where} is an image, and this model does not accept images.")
        array = picture(body, self.preprocessing, pixels=self.limits.pixels, resize=resize)
        return (self._check(array, self.ports[0], where),)

    # -- one sample --

    def sample(self, value: Any, where: str) -> Sample:
        if len(self.ports) == 1:
            return (self._array(value, self.ports[0], where),)
        names = [port.name for port in self.ports]
        if not isinstance(value, dict) or sorted(value) != sorted(names):
            raise Refused(422, f"{where} must be an object with {', '.join(names)} and nothing else.")
        return tuple(self._array(value[port.name], port, f"{where}.{port.name}") for port in self.ports)

    def _array(self, value: Any, port: Port, where: str) -> Array:
        match value:
            case str():
                if self.encode is None:
                    raise Refused(422, f"{where} is a string, and this model takes numbers.")
                return self._check(np.array(self.encode(value), port.dtype), port, where)
            case {"base64": str() as coded}:
                rest = {name: part for name, part in value.items() if name != "base64"}
                return self._from_base64(coded, rest, port, where)
            case dict():
                if not self.columns:
                    raise Refused(422, f"{where} is an object, and this model takes {_expected(port)}.")
                return self._check(row_of(value, self.columns, port, where), port, where)
            case list():
                return self._check(_numbers(value, port, where), port, where)
            case _:
                raise Refused(422, f"{where} is {_quote(value)}, and this model takes {_expected(port)}.")

    def _from_base64(self, coded: str, rest: Mapping[str, Any], port: Port, where: str) -> Array:
        try:
            data = base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError):
            raise Refused(422, f"{where}.base64 is not valid base64.") from None
        if not rest and self.takes_pictures:
            return self._check(picture(data, self.preprocessing, pixels=self.limits.pixels, resize=False), port, where)
        shape: Any = rest.get("shape")
        is_shape = isinstance(shape, list) and len(shape) <= len(port.shape)
        if set(rest) != {"shape"} or not is_shape or not all(type(each) is int and 0 < each < 2**31 for each in shape):
            how = '{"base64": "...", "shape": [sizes]}'
            raise Refused(422, f"{where} must be {how}: little-endian {port.dtype} values, shape {_expected(port)}.")
        dtype = np.dtype(port.dtype).newbyteorder("<")
        needed = math.prod(rest["shape"]) * dtype.itemsize
        if needed != len(data):
            raise Refused(422, f"{where} has {len(data):,} bytes; {port.dtype} of shape {shape} has {needed:,}.")
        return self._check(np.frombuffer(data, dtype).reshape(rest["shape"]).astype(port.dtype), port, where)

    def of_tensors(self, tensors: Mapping[str, Array]) -> list[Sample]:
        """Rows of whole batches, an array for each port. Raises Refused."""
        counts = {len(tensors[port.name]) for port in self.ports}
        if len(counts) != 1 or not 1 <= min(counts) <= self.limits.queue:
            raise Refused(422, f"The inputs must have the same number of samples, 1 to {self.limits.queue:,}.")
        for port in self.ports:
            self._check(tensors[port.name], port, port.name, batched=True)
        return list(zip(*(tensors[port.name] for port in self.ports), strict=True))

    def _check(self, found: Array, port: Port, where: str, *, batched: bool = False) -> Array:
        """The same array, after its shape and values are checked."""
        if port.refusal((1, *found.shape[batched:])):
            shape = list(found.shape[batched:])
            raise Refused(
                422, f"{where} has {'samples of ' * batched}shape {shape}; the model takes {_expected(port)}."
            )
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise Refused(422, f"{where} holds NaN or Inf.")
        known: Any = self.preprocessing.get("tokens")
        checked = self.preprocessing["kind"] == "tokens" and known and found.size
        if checked and not (found.min() >= 0 and found.max() < known):
            raise Refused(422, f"{where} holds a token outside 0 to {known - 1:,}.")
        return found


def parsed(body: bytes, exact: bool) -> Any:
    """orjson is five times faster. Python's parser gives the error message and reads what orjson cannot: lone
    surrogates, and integers of more than 64 bits, which orjson rounds."""
    try:
        return _parsed_slowly(body) if exact and LONG.search(body) else orjson.loads(body)
    except orjson.JSONDecodeError:
        return _parsed_slowly(body)


def _parsed_slowly(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise Refused(400, "The body is not UTF-8.") from None
    except RecursionError:
        raise Refused(400, "The JSON is nested too deeply.") from None
    except ValueError as error:
        raise Refused(400, f"The body is not JSON: {str(error)[:120]}.") from None


def _no_constant(word: str) -> NoReturn:
    raise Refused(422, f"The JSON holds {word}: every value must be finite.")


def _numbers(value: list[Any], port: Port, where: str) -> Array:
    """Nested lists of numbers; for integer inputs they must be exact."""
    shape, leaves, types = _flat(value, port, where)
    return packed(leaves, types, port, where).reshape(shape)


def packed(leaves: list[int | float], types: set[type], port: Port, where: str) -> Array:
    """Numbers of these types as one row. Raises Refused: out of range, or not integers."""
    dtype = np.dtype(port.dtype)
    if dtype.kind not in "iuf":
        raise Refused(422, f"{where} must be sent as base64: the model takes {port.dtype}.")
    try:
        if dtype.kind == "f":
            wide = np.frombuffer(array("d", leaves))
            if np.abs(wide).max(initial=0) > np.finfo(dtype).max:
                raise OverflowError
            return wide.astype(dtype)
        whole: list[Any] = [_integer(number, where) for number in leaves] if float in types else leaves
        data = bytes(whole) if dtype == np.uint8 else array(dtype.char, whole)  # faster than np.array
        return np.frombuffer(data, dtype)
    except (OverflowError, ValueError):
        known = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        kind = "numbers" if dtype.kind == "f" else "integers"
        takes = f"the model takes {kind} from {known.min} to {known.max}"
        raise Refused(422, f"{where} is out of range: {takes}.") from None


def _integer(number: int | float, where: str) -> int:
    """In JSON, 1.0 is an integer too."""
    if number != math.floor(number):
        raise Refused(422, f"{where} holds {number:g}, and the model takes integers.")
    return int(number)


def _flat(value: list[Any], port: Port, where: str) -> tuple[list[int], list[int | float], set[type]]:
    """Level by level, to the depth of the port: numpy would turn every number beside a long string into a string."""
    level: list[Any] = value
    shape = [len(value)]
    for _ in port.shape[2:]:
        sizes = {len(inner) if isinstance(inner, list) else -1 for inner in level}
        if len(sizes) != 1 or -1 in sizes:
            raise Refused(422, f"{where} is ragged or has too few dimensions: the model takes {_expected(port)}.")
        shape += sizes
        level = list(chain.from_iterable(level))
    types = {*map(type, level)}
    if not types <= {int, float}:
        held = f"{where} holds a value that is not a number, or has too many dimensions"
        raise Refused(422, f"{held}: it takes {_expected(port)}.")
    return shape, level, types


def _expected(port: Port) -> str:
    return f"[{', '.join(port.sizes()[1:])}] of {port.dtype}"


def _quote(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}..."
