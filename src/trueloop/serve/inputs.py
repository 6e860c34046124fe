"""Request bodies -> arrays: nested lists, base64, text, table rows, images. Each is checked against the artifact's
ports; a refusal names the value and the reason."""

import base64
import binascii
import json
import math
import re
from array import array
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final, NoReturn, final

import numpy as np
import orjson

from trueloop.export.exporter import Array
from trueloop.results.artifact import Artifact, Port
from trueloop.serve.batching import Sample
from trueloop.serve.limits import Limits, Refused
from trueloop.serve.pictures import picture
from trueloop.serve.table_rows import row_of
from trueloop.serve.text_encoding import Encode, encoding_of

__all__ = ["Inputs"]

QUOTED: Final = 40  # Characters of a value that an error quotes
LONG: Final = re.compile(rb"[0-9]{19}")  # A number that may need more than 64 bits


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
        self.columns: list[Mapping[str, Any]] = list(columns)
        """Columns of a table."""
        self.exact = any(port.dtype in ("int64", "uint64") for port in self.ports)
        """Does it take integers that a float cannot represent?"""

    # -- requests --

    def of_json(self, body: bytes) -> list[Sample]:
        parsed = _parsed(body, self.exact)
        if not isinstance(parsed, dict) or len(parsed) != 1 or next(iter(parsed)) not in ("input", "inputs"):
            raise Refused(422, 'The JSON must be {"input": SAMPLE} or {"inputs": [SAMPLE, ...]} and nothing else.')
        if "input" in parsed:
            return [self.sample(parsed["input"], "input")]
        many = parsed["inputs"]
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

    def _check(self, found: Array, port: Port, where: str) -> Array:
        """The same array, after its shape and values are checked."""
        if port.refusal((1, *found.shape)):
            raise Refused(422, f"{where} has shape {list(found.shape)}; the model takes {_expected(port)}.")
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise Refused(422, f"{where} holds NaN or Inf.")
        known: Any = self.preprocessing.get("tokens")
        checked = self.preprocessing["kind"] == "tokens" and known and found.size
        if checked and not (found.min() >= 0 and found.max() < known):
            raise Refused(422, f"{where} holds a token outside 0 to {known - 1:,}.")
        return found


def _parsed(body: bytes, exact: bool) -> Any:
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
    dtype = np.dtype(port.dtype)
    if dtype.kind not in "iuf":
        raise Refused(422, f"{where} must be sent as base64: the model takes {port.dtype}.")
    try:
        if dtype.kind == "f":
            wide = np.frombuffer(array("d", leaves))
            if np.abs(wide).max(initial=0) > np.finfo(dtype).max:
                raise OverflowError
            return wide.astype(dtype).reshape(shape)
        whole: list[Any] = [_integer(number, where) for number in leaves] if float in types else leaves
        packed = bytes(whole) if dtype == np.uint8 else array(dtype.char, whole)  # faster than np.array
        return np.frombuffer(packed, dtype).reshape(shape)
    except (OverflowError, ValueError):
        known = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        kind = "numbers" if dtype.kind == "f" else "integers"
        raise Refused(
            422, f"{where} is out of range: the model takes {kind} from {known.min} to {known.max}."
        ) from None


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
        raise Refused(
            422, f"{where} holds a value that is not a number, or has too many dimensions: it takes {_expected(port)}."
        )
    return shape, level, types


def _expected(port: Port) -> str:
    def size(at: int) -> str:
        due, most = port.shape[at], port.limit(at)
        return str(due) if due is not None else f"1..{most}" if most else "any"

    return f"[{', '.join(size(at) for at in range(1, len(port.shape)))}] of {port.dtype}"


def _quote(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}..."
