"""A served language model: POST /v1/completions as OpenAI has it, also streamed, and GET /v1/models."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, final

from trueloop.serve.asgi import PlainRequest, Receive, Scope, Send
from trueloop.serve.completions import Completion, TextPieces, completion_of
from trueloop.serve.host import Host
from trueloop.serve.limits import RETRY, Limits, Refused, read_body
from trueloop.serve.metrics import CONTENT
from trueloop.serve.text_streams import StreamBatcher, TextModel

__all__ = ["TextRoutes", "TextService"]

GETS: Final = ("/health", "/ready", "/metrics", "/v1/models")


@final
class TextService(Host):
    def __init__(self, open_model: Callable[[], TextModel], name: str, limits: Limits, *, key: str = "") -> None:
        super().__init__(limits, key)
        self.name, self.created = name, int(time.time())
        self.batcher = StreamBatcher(open_model, limits, self.metrics.tokens.inc)

    @property
    def waiting(self) -> int:
        return len(self.batcher.waiting)

    @property
    def ready(self) -> bool:
        return self.batcher.model is not None

    @property
    def failure(self) -> BaseException | None:
        return self.batcher.failure

    def start(self, started: Callable[[], None]) -> None:
        self.batcher.start(started)

    def stop(self) -> None:
        self.batcher.stop()

    def close(self, seconds: float) -> None:
        self.batcher.thread.join(seconds)

    async def reload_all(self, say: Callable[[str], None]) -> None:
        say("SIGHUP: language models are not loaded again; start the server again")

    async def read(self, request: PlainRequest) -> Completion:
        """The text has been submitted. Raises Refused."""
        with self.budget.share() as share:
            body = await read_body(request, self.limits, share)
        if self.batcher.model is None:
            raise Refused(503, "The model is still loading: try again in a second.", RETRY)
        asked = completion_of(body, self.batcher.model, self.name)
        self.batcher.submit(asked.stream)
        return asked

    async def pieces(self, asked: Completion) -> AsyncIterator[tuple[str, str]]:
        """Pieces of the text, the last with its finish reason. Raises Refused."""
        assert self.batcher.model is not None
        text = TextPieces(self.batcher.model, asked.stops)
        with self.metrics.taken.track_inprogress():
            for number in range(1, asked.stream.most + 1):
                try:
                    async with asyncio.timeout(self.limits.timeout):
                        token = await asked.stream.events.get()
                except TimeoutError:
                    sentence = f"The model wrote no token within {self.limits.timeout:g} seconds: try again later."
                    raise Refused(503, sentence, RETRY) from None
                if isinstance(token, Refused):
                    raise token
                piece = text.add(token) if token is not None else ""
                if text.stopped or token is None:
                    yield piece + text.rest(), "stop"
                    return
                if number == asked.stream.most:
                    yield piece + text.rest(), "length"
                elif piece:
                    yield piece, ""


@final
class TextRoutes:
    def __init__(self, service: TextService, started: Callable[[], None]) -> None:
        self.service, self.started = service, started

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["path"] == "/v1/completions":
            _only(scope, "POST")
            await self._complete(PlainRequest(scope, receive), send)
        elif scope["path"] in GETS:
            _only(scope, "GET")
            kind, body = self._state(scope["path"])
            await _send(send, body, kind)
        else:
            raise Refused(404, f"Not Found: the routes are POST /v1/completions, {', '.join(GETS)}.")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self.service.start(self.started)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.service.stop()
        await send({"type": "lifespan.shutdown.complete"})

    def _state(self, path: str) -> tuple[str, bytes]:
        service = self.service
        if path == "/metrics":
            return CONTENT, service.metrics.text()
        if path == "/ready" and (service.draining or not service.ready):
            sentence = "The server is stopping." if service.draining else "The model is still loading."
            raise Refused(503, sentence, RETRY)
        model = {"id": service.name, "object": "model", "created": service.created, "owned_by": "trueloop"}
        answers: dict[str, dict[str, Any]] = {
            "/health": {"status": "alive"},
            "/ready": {"status": "ready"},
            "/v1/models": {"object": "list", "data": [model]},
        }
        return "application/json", json.dumps(answers[path]).encode()

    async def _complete(self, request: PlainRequest, send: Send) -> None:
        asked = await self.service.read(request)
        try:
            await (self._streamed if asked.streamed else self._whole)(asked, send)
        finally:
            asked.stream.left = True  # also where the caller is gone, or a stop sequence came

    async def _whole(self, asked: Completion, send: Send) -> None:
        pieces, reason = [], ""
        async for piece, reason in self.service.pieces(asked):  # noqa: B007 - the last one counts
            pieces.append(piece)
        answer = {**self._head(), "choices": [_choice("".join(pieces), reason)], "usage": _usage(asked)}
        await _send(send, json.dumps(answer).encode())

    async def _streamed(self, asked: Completion, send: Send) -> None:
        """Server-sent events. An error before the first is an HTTP status, a later one an event."""
        head = self._head()
        begun = False
        try:
            async for piece, reason in self.service.pieces(asked):
                if not begun:
                    headers = [(b"content-type", b"text/event-stream")]
                    await send({"type": "http.response.start", "status": 200, "headers": headers})
                    begun = True
                await _event(send, {**head, "choices": [_choice(piece, reason)]})
            if asked.usage:
                await _event(send, {**head, "choices": [], "usage": _usage(asked)})
        except Refused as refused:
            if not begun:
                raise
            await _event(send, {"error": refused.sentence})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    def _head(self) -> dict[str, Any]:
        told = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time())}
        return {**told, "model": self.service.name}


def _choice(text: str, reason: str) -> dict[str, Any]:
    return {"text": text, "index": 0, "logprobs": None, "finish_reason": reason or None}


def _usage(asked: Completion) -> dict[str, int]:
    prompt, made = len(asked.stream.prompt), asked.stream.made
    return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}


def _only(scope: Scope, method: str) -> None:
    if scope["method"] != method:
        raise Refused(405, f"Method Not Allowed: this path accepts {method}.", {"Allow": method})


async def _event(send: Send, told: dict[str, Any]) -> None:
    body = f"data: {json.dumps(told)}\n\n".encode()
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _send(send: Send, body: bytes, kind: str = "application/json") -> None:
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", kind.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
