"""The routes of the KServe v2 protocol, as plain ASGI: /v2, /v2/health/...,
/v2/models/NAME[/versions/V][/ready|/infer], /v2/repository/index and /v2/repository/models/NAME/load."""

import asyncio
import json
from typing import Any, Final, final
from urllib.parse import unquote

from trueloop import __version__
from trueloop.serve.asgi import PlainRequest, Receive, Scope, Send
from trueloop.serve.inputs import parsed
from trueloop.serve.kserve import infer_answer, infer_request, model_metadata
from trueloop.serve.limits import RETRY, Refused, read_body
from trueloop.serve.model import Model
from trueloop.serve.service import INLINE, Service

__all__ = ["Kserve"]

LOOPBACK: Final = ("127.0.0.1", "::1")
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
            with self.service.using(self._model(parts[1:-1])) as model:
                await self._infer(PlainRequest(scope, receive), model, send)
            return
        if parts[:1] == ["repository"]:
            _only(scope, "POST")
            await _send(send, json.dumps(await self._repository(scope, receive, parts[1:])).encode())
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
                model = self._model(rest)
                self._check_ready()
                return {"name": model.name, "ready": True}
            case ["models", *rest] if rest:
                model = self._model(rest)
                return model_metadata(model.artifact, model.name, self.service.numbers(model.name))
            case _:
                raise Refused(
                    404, "Not Found: the KServe v2 routes are /v2, /v2/health/ready and /v2/models/NAME/infer."
                )

    def _model(self, rest: list[str]) -> Model:
        """NAME or NAME/versions/V. Raises Refused."""
        match rest:
            case [name]:
                return self.service.named(name)
            case [name, "versions", version] if version:
                return self.service.named(name, version)
            case _:
                raise Refused(404, "Not Found: a model is /v2/models/NAME or /v2/models/NAME/versions/V.")

    async def _repository(self, scope: Scope, receive: Receive, parts: list[str]) -> Any:
        match parts:
            case ["index"]:
                return [
                    {"name": model.name, "version": str(model.version), "state": "READY", "reason": ""}
                    for model in self.service.models
                    if model.batcher.ready
                ]
            case ["models", name, "load"]:
                if (scope["client"] or ("",))[0] not in LOOPBACK:
                    raise Refused(403, "Models are loaded again by requests from the server's own machine only.")
                with self.service.budget.share() as share:
                    body = await read_body(PlainRequest(scope, receive), self.service.limits, share)
                told = parsed(body, False) if body else {}
                if not isinstance(told, dict) or told.get("parameters"):
                    raise Refused(400, "The model is read from its own folder: parameters are not supported.")
                self.service.named(name)
                await asyncio.shield(self.service.keep(self.service.reload(name)))
                return {}
            case _:
                raise Refused(404, "Not Found: the routes are repository/index and repository/models/NAME/load.")

    def _check_ready(self) -> None:
        if self.service.draining or not self.service.ready:
            sentence = "The server is stopping." if self.service.draining else "The model is still loading."
            raise Refused(503, sentence, RETRY)

    async def _infer(self, request: PlainRequest, model: Model, send: Send) -> None:
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
                    asked = infer_request(body, json_bytes, model.inputs)
                else:
                    async with service.decoding:
                        asked = await asyncio.to_thread(infer_request, body, json_bytes, model.inputs)
            rows = await model.batcher.submit(asked.samples)
        answer, head = infer_answer(asked, rows, model.artifact, model.name, str(model.version))
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
