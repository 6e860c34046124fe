"""The server's routes. Everything that is refused is `{"error": SENTENCE}`, and every answer passes the door, which
counts it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, final

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from trueloop import __version__
from trueloop.serve.described import answers, model_schema, predict_operation, simple
from trueloop.serve.limits import RETRY, Refused
from trueloop.serve.metrics import CONTENT
from trueloop.serve.page import docs_page, try_page
from trueloop.serve.request import App, Asking, Message, Receive, Scope, Send
from trueloop.serve.service import Service

__all__ = ["HEADERS", "Door", "build_app"]

OPEN: Final = frozenset(("/health", "/ready", "/", "/docs", "/openapi.json"))
"""What is answered without the API key, and to the very end: whether it lives, and how to ask."""
SAFE: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"),
)  # fmt: skip
"""On every answer: a browser runs nothing but the page itself."""
HEADERS: Final = 2**15
"""Bytes of a request's headers. The parser counts only those that do not come all at once."""
CLOSED: Final = 499
"""What is counted for a caller that has gone before it was answered."""


@final
class Door:
    """Around all routes: who may come in, what is counted, and that no failure leaves without a sentence."""

    def __init__(self, app: App, predict: App, service: Service, log: Callable[[str], None] | None) -> None:
        self.app, self.predict, self.service, self.log = app, predict, service, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *SAFE]
            await send(message)

        try:
            self._judge(scope)
            asked = scope["path"] == "/predict" and scope["method"] == "POST"
            await (self.predict if asked else self.app)(scope, receive, sent)
        except Refused as refused:
            await refusal(refused)(scope, receive, sent)
        except ClientDisconnect:
            status = CLOSED
        except asyncio.CancelledError:
            if not status:  # the grace is over, and the model is not done
                await refusal(Refused(503, "The server has ended before the model answered.", RETRY))(
                    scope, receive, sent
                )
        except Exception:  # noqa: BLE001 - our own failure: the log has it all, the caller a sentence
            traceback.print_exc(file=sys.stderr)
            if not status:
                await refusal(Refused(500, "The server failed; its log says how."))(scope, receive, sent)
        finally:
            seconds = time.perf_counter() - begun
            self.service.metrics.answered(scope["path"], status, seconds)
            if self.log is not None:
                self.log(f"{scope['method']} {scope['path'][:200]!r} {status} {seconds * 1e3:.1f} ms")

    def _judge(self, scope: Scope) -> None:
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADERS:
            raise Refused(431, f"The headers are larger than {HEADERS:,} bytes.", {"Connection": "close"})
        if scope["path"] in OPEN:
            return
        if self.service.key and not self.service.knows(dict(scope["headers"])):
            raise Refused(
                401,
                "The API key is missing or wrong: send the header Authorization: Bearer KEY.",
                {"WWW-Authenticate": "Bearer"},
            )


def refusal(refused: Refused) -> Response:
    return Response(json.dumps({"error": refused.sentence}), refused.status, refused.headers, "application/json")


def build_app(service: Service, started: Callable[[], None], log: Callable[[str], None] | None = None) -> Door:
    """`started` is called when the model is ready, or will never be."""

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncIterator[None]:
        service.batcher.start(started)
        yield
        service.batcher.stop()

    artifact = service.artifact
    app = FastAPI(
        title=artifact.name,
        version=__version__,
        description=f"{artifact.name}, served by trueloop {__version__}. Try it at /.",
        docs_url=None,  # FastAPI's page loads scripts from elsewhere: ours does not
        redoc_url=None,
        redirect_slashes=False,
        lifespan=living,
        responses=answers(401) if service.key else {},
    )
    app.add_exception_handler(HTTPException, _other)
    app.add_exception_handler(Exception, _failed)
    predict = Predict(service)
    _add_predict(app, service, predict)
    _add_state(app, service)
    _add_pages(app, service)
    return Door(app, predict, service, log)


async def _other(_: Request, error: Exception) -> Response:
    """No such path, no such method."""
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("Allow")
    what = f"this path takes {allowed}" if allowed else "see /docs for what can be asked"
    sentence = f"{error.detail}: {what}."
    return refusal(Refused(error.status_code, sentence, error.headers))


async def _failed(_: Request, error: Exception) -> Response:
    return refusal(Refused(500, "The server failed; its log says how."))


@final
class Predict:
    """POST /predict as plain ASGI, to which the door leads directly: routing and requests of a framework cost more than
    the question."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self.service.predict(Asking(scope, receive))
        headers = [(b"content-length", b"%d" % len(answer)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def _add_predict(app: FastAPI, service: Service, predict: Predict) -> None:
    app.router.routes.append(Route("/predict", predict, methods=["POST"]))  # who asks otherwise is told how to
    written = app.openapi
    operation = predict_operation(service.artifact, service.inputs, keyed=bool(service.key))

    def openapi() -> dict[str, Any]:
        document = written()
        document["paths"] = {"/predict": {"post": operation}} | document["paths"]
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _add_state(app: FastAPI, service: Service) -> None:
    async def health() -> Response:
        return _json({"status": "alive"})

    async def ready() -> Response:
        if service.draining or not service.batcher.ready:
            return refusal(
                Refused(503, "The server is ending." if service.draining else "The model is still being loaded.", RETRY)
            )
        return _json({"status": "ready"})

    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT)

    async def model() -> Response:
        return _json(_described(service))

    routes: Mapping[str, tuple[Any, str, dict[int | str, dict[str, Any]]]] = {
        "/health": (health, "Does the process answer?", {200: simple("alive")}),
        "/ready": (ready, "Is the model loaded and warm?", {200: simple("ready"), **answers(503)}),
        "/metrics": (
            metrics,
            "Counts and times, for Prometheus",
            {200: {"description": "Text", "content": {"text/plain": {}}}},
        ),
        "/model": (model, "What the model takes and answers", {200: model_schema()}),
    }
    for path, (route, summary, responses) in routes.items():
        app.add_api_route(path, route, methods=["GET"], summary=summary, responses=responses, response_class=Response)


def _add_pages(app: FastAPI, service: Service) -> None:
    async def page() -> Response:
        return Response(try_page(service.artifact, service.inputs, key=bool(service.key)), media_type="text/html")

    async def docs() -> Response:
        return Response(docs_page(app.openapi()), media_type="text/html")

    for path, route in (("/", page), ("/docs", docs)):
        app.add_api_route(path, route, methods=["GET"], include_in_schema=False, response_class=Response)


def _described(service: Service) -> dict[str, Any]:
    artifact = service.artifact
    hidden = ("words", "vocabulary")  # megabytes
    return {
        "name": artifact.name,
        "target": artifact.target,
        "task": artifact.task,
        "classes": list(artifact.classes),
        "inputs": [
            {"name": port.name, "dtype": port.dtype, "shape": list(port.shape), "most": list(port.most)}
            for port in artifact.inputs
        ],
        "preprocessing": {name: value for name, value in artifact.preprocessing.items() if name not in hidden},
        "batch": service.batcher.batch,
        "latency_ms": service.limits.latency * 1e3 if service.batcher.limited else None,
        "max_body": service.limits.body,
    }


def _json(value: Any) -> Response:
    return Response(json.dumps(value), media_type="application/json")
