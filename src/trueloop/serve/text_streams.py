"""Continuous batching: one thread owns a language model and computes the next token of all texts together. A text joins
at the next token and leaves when it is over, so none waits for the longest one."""

import asyncio
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from trueloop.serve.limits import RETRY, Limits, Refused

__all__ = ["FakeTextModel", "Stream", "StreamBatcher", "TextModel"]

FAILED: Final = "The model failed; see the server's log."
Token = int | None | Refused  # None: the text is over, with its end-of-text token


@final
@dataclass(slots=True, eq=False)
class Stream:
    """A text that is being written."""

    prompt: tuple[int, ...]
    most: int  # New tokens
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    events: asyncio.Queue[Token] = field(default_factory=asyncio.Queue)
    made: int = 0
    left: bool = False  # Nobody reads it any more


class TextModel(ABC):
    """A language model that writes several texts at once. Rows are numbered from 0 in the order of `add`."""

    context: int  # Tokens of a text
    ends: frozenset[int]  # End-of-text tokens
    vocabulary: int  # Number of tokens

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Raises TrueloopError."""

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str: ...

    @abstractmethod
    def add(self, stream: Stream) -> int:
        """Reads the prompt, as the last row. The first new token."""

    @abstractmethod
    def step(self) -> list[int]:
        """The next token of each row."""

    @abstractmethod
    def drop(self, row: int) -> None:
        """The last row takes its place."""


@final
class FakeTextModel(TextModel):
    """For tests: counts up from the last token of the prompt. Bytes are tokens; 0 ends a text, 255 fails."""

    def __init__(self) -> None:
        self.context, self.ends, self.vocabulary = 64, frozenset([0]), 256
        self.rows: list[int] = []
        self.widths: list[int] = []  # Texts of each step

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(tokens).decode("utf-8", "replace")

    def add(self, stream: Stream) -> int:
        if stream.prompt[-1] == 255:
            raise RuntimeError("255 is out of range")
        self.rows.append((stream.prompt[-1] + 1) % 128)
        return self.rows[-1]

    def step(self) -> list[int]:
        self.widths.append(len(self.rows))
        self.rows = [(row + 1) % 128 for row in self.rows]
        return list(self.rows)

    def drop(self, row: int) -> None:
        self.rows[row] = self.rows[-1]
        self.rows.pop()


@final
class StreamBatcher:
    """`start()`, `submit(stream)` from the event loop, then read `stream.events`; `stop()`."""

    def __init__(self, open_model: Callable[[], TextModel], limits: Limits, computed: Callable[[int], None]) -> None:
        self.open_model, self.limits = open_model, limits
        self.computed = computed  # Called after each step with its number of tokens
        self.model: TextModel | None = None  # None: not loaded yet
        self.failure: BaseException | None = None
        self.waiting: deque[Stream] = deque()
        self.active: list[Stream] = []  # In the order of the model's rows
        self.changed = threading.Condition()
        self.stopping = False
        self.thread = threading.Thread(target=self._work, name="language model", daemon=True)
        self.loop: asyncio.AbstractEventLoop | None = None

    def start(self, finished: Callable[[], None]) -> None:
        """`finished` is called in the event loop when the model is ready, or has failed to load."""
        self.loop, self.finished = asyncio.get_running_loop(), finished
        self.thread.start()

    def stop(self) -> None:
        """Texts that have begun, or wait, are still written."""
        with self.changed:
            self.stopping = True
            self.changed.notify()

    def submit(self, stream: Stream) -> None:
        """Raises Refused: 503 not ready, 429 too many wait."""
        if self.model is None:
            raise Refused(503, "The model is still loading: try again in a second.", RETRY)
        with self.changed:
            if len(self.waiting) >= self.limits.queue:
                raise Refused(429, "The queue is full: try again in a second.", RETRY)
            self.waiting.append(stream)
            self.changed.notify()

    # -- in the model's thread --

    def _work(self) -> None:
        try:
            self.model = model = self.open_model()
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            self.failure = error
            self._call(self.finished)
            return
        self._call(self.finished)
        while (joining := self._joining()) is not None:
            for stream in joining:
                self._add(model, stream)
            self._step(model)

    def _joining(self) -> list[Stream] | None:
        """Texts for the free rows; waits if there is nothing to do. None: stopped."""
        with self.changed:
            while not self.active and not self.waiting and not self.stopping:
                self.changed.wait()
            if not self.active and not self.waiting:
                return None
            joining: list[Stream] = []
            while self.waiting and len(self.active) + len(joining) < self.limits.batch:
                stream = self.waiting.popleft()
                if not stream.left:
                    joining.append(stream)
            return joining

    def _add(self, model: TextModel, stream: Stream) -> None:
        try:
            token = model.add(stream)
        except Exception:  # noqa: BLE001 - any error of the model becomes an answer
            traceback.print_exc(file=sys.stderr)
            self._deliver([(stream, Refused(500, FAILED))])
            return
        self.active.append(stream)
        self.computed(1)
        self._hand_out(model, [(stream, token)])

    def _step(self, model: TextModel) -> None:
        for row in reversed(range(len(self.active))):
            if self.active[row].left:
                self._drop(model, row)
        if not self.active:
            return
        try:
            tokens = model.step()
        except Exception:  # noqa: BLE001 - any error of the model becomes an answer
            traceback.print_exc(file=sys.stderr)
            self._deliver([(stream, Refused(500, FAILED)) for stream in self.active])
            for row in reversed(range(len(self.active))):
                self._drop(model, row)
            return
        self.computed(len(tokens))
        self._hand_out(model, list(zip(self.active, tokens, strict=True)))

    def _hand_out(self, model: TextModel, tokens: Sequence[tuple[Stream, int]]) -> None:
        events: list[tuple[Stream, Token]] = []
        for stream, token in tokens:
            stream.made += 1
            over = token in model.ends
            events.append((stream, None if over else token))
            if over or stream.made >= stream.most:
                self._drop(model, self.active.index(stream))
        self._deliver(events)

    def _drop(self, model: TextModel, row: int) -> None:
        model.drop(row)
        self.active[row] = self.active[-1]
        self.active.pop()

    def _deliver(self, events: Sequence[tuple[Stream, Token]]) -> None:
        def put() -> None:
            for stream, event in events:
                stream.events.put_nowait(event)

        self._call(put)

    def _call(self, what: Callable[[], None]) -> None:
        assert self.loop is not None
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(what)
