"""The routes of the KServe v2 protocol, as plain ASGI: /v2, /v2/health/... and
/v2/models/NAME[/versions/V][/ready|/infer]."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, final
from urllib.parse import unquote

from trueloop import __version__
from trueloop.serve.asgi import PlainRequest, Receive, Scope, Send
from trueloop.serve.kserve import infer_answer, infer_request, model_metadata
from trueloop.serve.limits import RETRY, Refused, read_body
from trueloop.serve.service import INLINE, Service

__all__ = ["Kserve"]

VERSION: Final = "1"
JSON_BYTES: Final = "inference-header-content-length"


@final
class Kserve:
    def __init__(self, service: Service) -> None:
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope["raw_path"].decode("ascii")
        parts = [unquote(part) for part in raw.removeprefix("/v2").removeprefix("/").split("/")]
        if parts[:1] == ["models"] and parts[-1] == "infer":
            _only(scope, "POST")
            self._check(parts[1:-1])
            await self._infer(PlainRequest(scope, receive), send)
            return
        _only(scope, "GET")
        await _send(send, json.dumps(self._state(parts)).encode())

    def _state(self, parts: list[str]) -> dict[str, Any]:
        match parts:
            case [""]:
                return {"name": "trueloop", "version": __version__, "extensions": ["binary_tensor_data"]}
            case ["health", "live"]:
                return {"live": True}
            case ["health", "ready"]:
                self._check_ready()
                return {"ready": True}
            case ["models", *rest, "ready"] if rest:
                self._check(rest)
                self._check_ready()
                return {"name": self.service.artifact.name, "ready": True}
            case ["models", *rest] if rest:
                self._check(rest)
                return model_metadata(self.service.artifact, self.service.artifact.name, [VERSION])
            case _:
                raise Refused(
                    404, "Not Found: the KServe v2 routes are /v2, /v2/health/ready and /v2/models/NAME/infer."
                )

    def _check(self, rest: list[str]) -> None:
        """NAME or NAME/versions/V. Raises Refused."""
        name = self.service.artifact.name
        if rest[:1] != [name]:
            raise Refused(404, f"There is no model {(rest or [''])[0][:80]!r} here: it is {name!r}.")
        if rest[1:] not in ([], ["versions", VERSION]):
            raise Refused(404, f"{name} has version {VERSION} only.")

    def _check_ready(self) -> None:
        if self.service.draining or not self.service.batcher.ready:
            sentence = "The server is stopping." if self.service.draining else "The model is still loading."
            raise Refused(503, sentence, RETRY)

    async def _infer(self, request: PlainRequest, send: Send) -> None:
        service = self.service
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Refused(415, "Compressed requests are not supported: send the body without Content-Encoding.")
        length = request.headers.get(JSON_BYTES)
        if length is not None and not (length.isascii() and length.isdecimal() and len(length) < 20):
            raise Refused(400, "Inference-Header-Content-Length must be a number of bytes.")
        json_bytes = None if length is None else int(length)
        with service.metrics.taken.track_inprogress():
            with service.budget.share() as share:
                body = await read_body(request, service.limits, share)
                if len(body) <= INLINE:
                    asked = infer_request(body, json_bytes, service.inputs)
                else:
                    async with service.decoding:
                        asked = await asyncio.to_thread(infer_request, body, json_bytes, service.inputs)
            rows = await service.batcher.submit(asked.samples)
        answer, head = infer_answer(asked, rows, service.artifact, service.artifact.name, VERSION)
        await _send(send, answer, head)


def _only(scope: Scope, method: str) -> None:
    if scope["method"] != method:
        allowed = "GET, HEAD" if method == "GET" else method
        raise Refused(405, f"Method Not Allowed: this path accepts {allowed}.", {"Allow": allowed})


async def _send(send: Send, body: bytes, json_bytes: int | None = None) -> None:
    kind = b"application/json" if json_bytes is None else b"application/octet-stream"
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", kind)]
    if json_bytes is not None:
        headers.append((JSON_BYTES.encode(), b"%d" % json_bytes))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
