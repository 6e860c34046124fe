"""OpenAI-compatible completions: a request as a value, and tokens as pieces of text."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from trueloop.errors import TrueloopError
from trueloop.serve.inputs import parsed
from trueloop.serve.limits import Refused
from trueloop.serve.text_streams import Stream, TextModel

__all__ = ["Completion", "TextPieces", "completion_of"]

TOKENS: Final = 16  # OpenAI's default of max_tokens
STOPS: Final = 4  # Most stop sequences, as OpenAI has it
UNSUPPORTED: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1, None), "best_of": (1, None), "logprobs": (None, False), "echo": (False, None), "suffix": (None, ""),
    "logit_bias": (None, {}), "presence_penalty": (0, None), "frequency_penalty": (0, None),
}  # fmt: skip
"""Fields that would change the answer -> their values that do not."""


@final
@dataclass(frozen=True, slots=True)
class Completion:
    """A request to /v1/completions."""

    stream: Stream
    stops: tuple[str, ...]
    streamed: bool
    usage: bool  # At the end of a streamed answer


def completion_of(body: bytes, model: TextModel, name: str) -> Completion:
    """Raises Refused."""
    told = parsed(body, False)
    if not isinstance(told, dict):
        raise Refused(400, 'The JSON must be {"prompt": TEXT, "max_tokens": N, ...}.')
    for field, same in UNSUPPORTED.items():
        if told.get(field) not in same:
            raise Refused(400, f"{field} is not supported.")
    if told.get("model", name) != name:
        raise Refused(404, f"There is no model {str(told['model'])[:80]!r} here: it is {name!r}.")
    stops = told.get("stop") or []
    stops = [stops] if isinstance(stops, str) else stops
    if not isinstance(stops, list) or len(stops) > STOPS or not all(isinstance(each, str) and each for each in stops):
        raise Refused(400, f"stop must be a text or a list of up to {STOPS} texts.")
    options = told.get("stream_options") or {}
    usage = isinstance(options, dict) and options.get("include_usage") is True
    return Completion(_stream(told, model), tuple(stops), told.get("stream") is True, usage)


def _stream(told: Mapping[str, Any], model: TextModel) -> Stream:
    prompt = _prompt(told.get("prompt"), model)
    most = _number(told, "max_tokens", TOKENS, 1, model.context, whole=True)
    if len(prompt) + most > model.context:
        asked = f"{len(prompt)} tokens of the prompt and max_tokens {most}"
        raise Refused(400, f"The model has a context of {model.context} tokens, and {asked} are more.")
    return Stream(
        prompt,
        int(most),
        temperature=_number(told, "temperature", 1.0, 0.0, 100.0),
        top_p=_number(told, "top_p", 1.0, 1e-6, 1.0) if told.get("top_p") not in (None, 1, 1.0) else None,
        top_k=int(_number(told, "top_k", 1, 1, 2**31, whole=True)) if told.get("top_k") is not None else None,
        seed=int(_number(told, "seed", secrets.randbits(32), 0, 2**62, whole=True)),
    )


def _prompt(value: Any, model: TextModel) -> tuple[int, ...]:
    """A text, or a list of tokens, or a list with one of them."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], (str, list)):
        value = value[0]
    if isinstance(value, str):
        try:
            tokens = model.encode(value)
        except TrueloopError as error:
            raise Refused(400, str(error)) from None
    elif isinstance(value, list) and all(type(token) is int and 0 <= token < 2**31 for token in value):
        tokens = value
    else:
        raise Refused(400, "prompt must be one text, or one list of tokens.")
    if not 1 <= len(tokens) < model.context:
        raise Refused(400, f"The prompt has {len(tokens)} tokens: it must have 1 to {model.context - 1}.")
    if max(tokens) >= model.vocabulary:
        raise Refused(400, f"The prompt holds the token {max(tokens)}; the model knows 0 to {model.vocabulary - 1}.")
    return tuple(tokens)


def _number(
    told: Mapping[str, Any], name: str, default: float, least: float, most: float, *, whole: bool = False
) -> float:
    value = told.get(name)
    if value is None:
        return default
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        kind = "an integer" if whole else "a number"
        raise Refused(400, f"{name} must be {kind} from {least:g} to {most:g}.")
    return value


@final
class TextPieces:
    """Tokens -> pieces of text. Half a character, and what may become a stop sequence, are held back."""

    def __init__(self, model: TextModel, stops: Sequence[str]) -> None:
        self.model, self.stops = model, stops
        self.tokens: list[int] = []
        self.sent = 0  # Characters
        self.stopped = False  # A stop sequence was found

    def add(self, token: int) -> str:
        self.tokens.append(token)
        text = self.model.decode(self.tokens)
        found = [at for stop in self.stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            return self._send(text, min(found))
        text = text.rstrip("\ufffd")
        held = max((len(stop) - 1 for stop in self.stops), default=0)
        return self._send(text, len(text) - held)

    def rest(self) -> str:
        """At the end."""
        text = self.model.decode(self.tokens)
        return "" if self.stopped else self._send(text, len(text))

    def _send(self, text: str, end: int) -> str:
        piece = text[self.sent : max(end, self.sent)]
        self.sent += len(piece)
        return piece
