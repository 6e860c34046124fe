"""What callers send, as arrays: lists of numbers, base64, text, rows of a table, pictures. Each is judged by the
artifact's ports before the model sees it, and refused with one sentence that says which value and why."""

from __future__ import annotations

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
from trueloop.serve.rows import row_of
from trueloop.serve.texts import Encode, encoding_of

__all__ = ["Inputs"]

ENOUGH: Final = 40
"""Letters of a caller's value that are shown to it."""
LONG: Final = re.compile(rb"[0-9]{19}")
"""As many digits as the largest number of 64 bits has."""


@final
class Inputs:
    """Of one artifact."""

    def __init__(self, artifact: Artifact, limits: Limits) -> None:
        self.artifact, self.limits = artifact, limits
        self.ports = artifact.inputs
        self.preprocessing = artifact.preprocessing
        inside = bool(self.preprocessing.get("inside"))
        self.encode: Encode | None = encoding_of(self.preprocessing) if self.preprocessing["kind"] == "tokens" else None
        self.takes_pictures = self.preprocessing["kind"] == "image" and inside and len(self.ports) == 1
        self.columns: list[Mapping[str, Any]] = (
            list(self.preprocessing.get("columns", ())) if len(self.ports) == 1 else []
        )
        """Of a table."""
        self.exact = any(
            np.dtype(port.dtype).kind in "iu" and np.dtype(port.dtype).itemsize == 8 for port in self.ports
        )
        """Does it take numbers that a float cannot hold?"""

    # -- whole requests --

    def of_json(self, body: bytes) -> list[Sample]:
        told = _parsed(body, self.exact)
        if not isinstance(told, dict) or len(told) != 1 or next(iter(told)) not in ("input", "inputs"):
            raise Refused(422, 'The JSON must be {"input": ONE} or {"inputs": [ONE, ...]}, and nothing else.')
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
            raise Refused(415, f"{where} is a picture, and this model takes none.")
        return (
            self._fit(
                picture(body, self.preprocessing, pixels=self.limits.pixels, resize=resize), self.ports[0], where
            ),
        )

    # -- one sample --

    def sample(self, value: Any, where: str) -> Sample:
        if len(self.ports) == 1:
            return (self._array(value, self.ports[0], where),)
        names = [port.name for port in self.ports]
        if not isinstance(value, dict) or sorted(value) != sorted(names):
            raise Refused(422, f"{where} must be an object with {', '.join(names)}, and nothing else.")
        return tuple(self._array(value[port.name], port, f"{where}.{port.name}") for port in self.ports)

    def _array(self, value: Any, port: Port, where: str) -> Array:
        match value:
            case str():
                if self.encode is None:
                    raise Refused(422, f"{where} is text, and this model takes numbers.")
                return self._fit(np.array(self.encode(value), port.dtype), port, where)
            case {"base64": str() as coded}:
                return self._from_base64(
                    coded, {name: part for name, part in value.items() if name != "base64"}, port, where
                )
            case dict():
                if not self.columns:
                    raise Refused(422, f"{where} is an object, and this model takes {_wanted(port)}.")
                return self._fit(row_of(value, self.columns, port, where), port, where)
            case list():
                return self._fit(_numbers(value, port, where), port, where)
            case _:
                raise Refused(422, f"{where} is {_shown(value)}, and this model takes {_wanted(port)}.")

    def _from_base64(self, coded: str, rest: Mapping[str, Any], port: Port, where: str) -> Array:
        try:
            data = base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError):
            raise Refused(422, f"{where}.base64 is no base64.") from None
        if not rest and self.takes_pictures:
            return self._fit(picture(data, self.preprocessing, pixels=self.limits.pixels, resize=False), port, where)
        shape = rest.get("shape")
        sizes = (
            isinstance(shape, list)
            and len(shape) < len(port.shape) + 1
            and all(type(size) is int and 0 < size < 2**31 for size in shape)
        )
        if set(rest) != {"shape"} or not sizes:
            how = '{"base64": "...", "shape": [sizes]}'
            raise Refused(
                422,
                f"{where} must be {how}: the bytes of {port.dtype} numbers, the lowest byte first, and {_wanted(port)}.",
            )
        dtype = np.dtype(port.dtype).newbyteorder("<")
        needed = math.prod(rest["shape"]) * dtype.itemsize
        if needed != len(data):
            raise Refused(
                422, f"{where} has {len(data):,} bytes, and {port.dtype} of the shape {rest['shape']} has {needed:,}."
            )
        return self._fit(np.frombuffer(data, dtype).reshape(rest["shape"]).astype(port.dtype), port, where)

    def _fit(self, found: Array, port: Port, where: str) -> Array:
        """The same array, if its shape and its values will do."""
        if port.refusal((1, *found.shape)):
            raise Refused(422, f"{where} has the shape {list(found.shape)}, and the model takes {_wanted(port)}.")
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise Refused(422, f"{where} holds a number that is not finite (NaN or infinite).")
        known = self.preprocessing.get("tokens")
        if (
            self.preprocessing["kind"] == "tokens"
            and known
            and found.size
            and not (found.min() >= 0 and found.max() < known)
        ):
            raise Refused(422, f"{where} holds a token outside 0 to {known - 1:,}.")
        return found


def _parsed(body: bytes, exact: bool) -> Any:
    """Five times as quick as Python's own reader, which then says what is wrong, and reads what only it takes: half a
    letter, and whole numbers of more than 64 bits, which are rounded here."""
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
        raise Refused(400, f"The body is no JSON: {str(error)[:120]}.") from None


def _no_constant(word: str) -> NoReturn:
    raise Refused(422, f"The JSON holds {word}, which is no number: every value must be finite.")


def _numbers(value: list[Any], port: Port, where: str) -> Array:
    """Nested lists of numbers, exactly representable where the model takes whole ones."""
    shape, leaves, types = _flat(value, port, where)
    dtype = np.dtype(port.dtype)
    if dtype.kind not in "iuf":
        raise Refused(422, f"{where} must be sent as base64: this model takes {port.dtype}.")
    try:
        if dtype.kind == "f":
            wide = np.frombuffer(array("d", leaves))
            if np.abs(wide).max(initial=0) > np.finfo(dtype).max:
                raise OverflowError
            return wide.astype(dtype).reshape(shape)
        whole: list[Any] = [_whole(number, where) for number in leaves] if float in types else leaves
        packed = bytes(whole) if dtype == np.uint8 else array(dtype.char, whole)  # quicker than numpy by itself
        return np.frombuffer(packed, dtype).reshape(shape)
    except (OverflowError, ValueError):
        known = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        limits = f"{'' if dtype.kind == 'f' else 'whole '}numbers from {known.min} to {known.max}"
        raise Refused(
            422, f"{where} holds a number that is too large or too small: the model takes {limits}."
        ) from None


def _whole(number: int | float, where: str) -> int:
    """1.0 is a whole number in JSON, too."""
    if number != math.floor(number):
        raise Refused(422, f"{where} holds {number:g}, and the model takes whole numbers.")
    return int(number)


def _flat(value: list[Any], port: Port, where: str) -> tuple[list[int], list[int | float], set[type]]:
    """Level by level, and no deeper than the model takes: numpy would make texts of a million letters for every number
    beside one."""
    level: list[Any] = value
    shape = [len(value)]
    for _ in port.shape[2:]:
        sizes = {len(inner) if isinstance(inner, list) else -1 for inner in level}
        if len(sizes) != 1 or -1 in sizes:
            raise Refused(422, f"{where} is uneven, or has too few dimensions: the model takes {_wanted(port)}.")
        shape += sizes
        level = list(chain.from_iterable(level))
    types = {*map(type, level)}
    if not types <= {int, float}:
        raise Refused(
            422,
            f"{where} holds something that is no number, or has too many dimensions: the model takes {_wanted(port)}.",
        )
    return shape, level, types


def _wanted(port: Port) -> str:
    def size(at: int) -> str:
        due, most = port.shape[at], port.limit(at)
        return str(due) if due is not None else f"1..{most}" if most else "any"

    return f"[{', '.join(size(at) for at in range(1, len(port.shape)))}] of {port.dtype}"


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= ENOUGH else f"{text[:ENOUGH]}..."
