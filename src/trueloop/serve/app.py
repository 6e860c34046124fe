"""The routes of the server. Every refusal is `{"error": SENTENCE}`; the middleware counts every answer."""

import asyncio
import json
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final, final

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from trueloop import __version__
from trueloop.serve.asgi import App, Message, PlainRequest, Receive, Scope, Send
from trueloop.serve.host import Host
from trueloop.serve.kserve_routes import Kserve
from trueloop.serve.limits import RETRY, Refused, Share
from trueloop.serve.metrics import CONTENT
from trueloop.serve.openapi import answers, model_schema, predict_operation, simple
from trueloop.serve.page import docs_page, try_page
from trueloop.serve.service import Service

__all__ = ["CLOSED", "CROWDED", "FAILED", "HEADERS", "LEFT", "NO_KEY", "Middleware", "build_app"]

CROWDED: Final = "trueloop_crowded"  # In a request's state: its connection is beyond the limits
LEFT: Final = "trueloop_left"  # In a request's state: its caller has closed the connection
ALWAYS: Final = frozenset(
    ("/health", "/ready", "/v2/health/live", "/v2/health/ready")
)  # Answered on connections beyond the limits too
PIECE: Final = 2**15  # Bytes of an answer written at once: further ones wait until the caller has read some
OPEN: Final = ALWAYS | {"/", "/docs", "/openapi.json"}  # Routes without an API key
CSP: Final = b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", CSP),
)
HEADERS: Final = 2**15  # Bytes of a request's headers. The parser limits only headers that arrive in pieces.
CLOSED: Final = 499  # Counted for a caller that disconnected before the answer
FAILED: Final = "Internal error; see the server's log."
NO_KEY: Final = "The API key is missing or wrong: send the header Authorization: Bearer KEY."


@final
class Middleware:
    """Around all routes: API key, counting, and an error sentence for every failure."""

    def __init__(self, app: App, service: Host, log: Callable[[str], None] | None) -> None:
        self.app, self.service, self.log = app, service, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        with self.service.unread.share() as share:
            answer = Answer(send, share)
            try:
                await self._answer(scope, receive, answer)
            except Refused as refused:
                await answer.refuse(refused)
            except ClientDisconnect:
                answer.status = CLOSED
            except asyncio.CancelledError:
                if scope["state"].get(LEFT):
                    answer.status = CLOSED
                elif not answer.status:  # the grace period is over
                    await answer.refuse(Refused(503, "The server stopped before the model answered.", RETRY))
            except Exception:  # noqa: BLE001 - our own failure: the details are in the log
                traceback.print_exc(file=sys.stderr)
                if not answer.status:
                    await answer.refuse(Refused(500, FAILED))
            finally:
                seconds = time.perf_counter() - begun
                self.service.metrics.answered(scope["path"], answer.status, seconds)
                if self.log is not None:
                    self.log(f"{scope['method']} {scope['path'][:200]!r} {answer.status} {seconds * 1e3:.1f} ms")

    async def _answer(self, scope: Scope, receive: Receive, answer: Send) -> None:
        self._check(scope)
        if scope["method"] == "HEAD":  # answered as GET; uvicorn leaves the body out
            scope = {**scope, "method": "GET"}
        await self.app(scope, receive, answer)

    def _check(self, scope: Scope) -> None:
        if scope["state"].get(CROWDED) and scope["path"] not in ALWAYS:
            sentence = "The server has too many connections, or too many of yours: try again in a second."
            raise Refused(503, sentence, RETRY | {"Connection": "close"})
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADERS:
            raise Refused(431, f"The headers are larger than {HEADERS:,} bytes.", {"Connection": "close"})
        if scope["path"] not in OPEN and not self.service.accepts_key(dict(scope["headers"])):
            raise Refused(401, NO_KEY, {"WWW-Authenticate": "Bearer"})


@final
class Routes:
    """Predictions go around the framework."""

    def __init__(self, app: App, service: Service) -> None:
        self.app = app
        self.predict, self.kserve = JsonRoute(service.predict), Kserve(service)
        self.preview = JsonRoute(service.preview)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if path == "/predict" and scope["method"] == "POST":
            await self.predict(scope, receive, send)
        elif path == "/preview" and scope["method"] == "POST":
            await self.preview(scope, receive, send)
        elif path == "/v2" or path.startswith("/v2/"):
            await self.kserve(scope, receive, send)
        else:
            await self.app(scope, receive, send)


@final
class Answer:
    """What a route sends: counted, with the headers of every answer, and in pieces that the caller has to read."""

    def __init__(self, send: Send, share: Share) -> None:
        self.send, self.share = send, share
        self.status = 0  # Sent; 0: none yet
        self.start: Message | None = None  # Held back until the body is known to fit into memory

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS]
            self.start = message
            return
        body = message.get("body", b"")
        if self.start is not None:
            self.share.take(len(body))
            self.status = self.start["status"]
            start, self.start = self.start, None
            await self.send(start)
        while len(body) > PIECE:
            await self.send({"type": "http.response.body", "body": body[:PIECE], "more_body": True})
            body = body[PIECE:]
        await self.send({**message, "body": body})

    async def refuse(self, refused: Refused) -> None:
        """Small: it needs no share."""
        body = json.dumps({"error": refused.sentence}).encode()
        self.start, self.status = None, refused.status
        told = {"Content-Type": "application/json", "Content-Length": str(len(body)), **refused.headers}
        headers = [(name.lower().encode(), value.encode()) for name, value in told.items()]
        start = {"type": "http.response.start", "status": refused.status, "headers": [*headers, *SECURITY_HEADERS]}
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body})


def refusal(refused: Refused) -> Response:
    return Response(json.dumps({"error": refused.sentence}), refused.status, refused.headers, "application/json")


def build_app(service: Service, started: Callable[[], None], log: Callable[[str], None] | None = None) -> Middleware:
    """`started` is called when the model is ready, or has failed to load."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start(started)
        yield
        service.stop()

    name = service.first.name
    app = FastAPI(
        title=name,
        version=__version__,
        description=f"{name}, served by trueloop {__version__}. Try it at /.",
        docs_url=None,  # FastAPI's page loads scripts from a CDN
        redoc_url=None,
        openapi_url=None,  # FastAPI's route writes the document anew for every caller; ours is below
        redirect_slashes=False,
        lifespan=lifespan,
        responses=answers(401) if service.key else {},
    )
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _internal_error)
    for path, answer in (("/predict", service.predict), ("/preview", service.preview)):
        app.router.routes.append(Route(path, JsonRoute(answer), methods=["POST"]))  # other methods: 405
    _document_predict(app, service)
    _add_state(app, service)
    _add_pages(app, service)
    return Middleware(Routes(app, service), service, log)


@final
class JsonRoute:
    """POST as plain ASGI: a framework's routing and request objects cost more than a small prediction."""

    def __init__(self, answer: Callable[[PlainRequest], Awaitable[bytes]]) -> None:
        self.answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self.answer(PlainRequest(scope, receive))
        headers = [(b"content-length", b"%d" % len(answer)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


async def _http_error(_: Request, error: Exception) -> Response:
    """404 and 405."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if headers.get("Allow") == "GET":
        headers["Allow"] = "GET, HEAD"
    allowed = headers.get("Allow")
    sentence = f"{error.detail}: {f'this path accepts {allowed}' if allowed else 'see /docs for the routes'}."
    return refusal(Refused(error.status_code, sentence, headers))


async def _internal_error(_: Request, error: Exception) -> Response:
    return refusal(Refused(500, FAILED))


def _document_predict(app: FastAPI, service: Service) -> None:
    written = app.openapi
    operation = predict_operation(service.first.artifact, service.first.inputs, keyed=bool(service.key))

    def openapi() -> dict[str, Any]:
        document = written()
        document["paths"] = {"/predict": {"post": operation}} | document["paths"]
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _add_state(app: FastAPI, service: Service) -> None:
    async def health() -> Response:
        return _json({"status": "alive"})

    async def ready() -> Response:
        if service.draining or not service.ready:
            sentence = "The server is stopping." if service.draining else "The model is still loading."
            return refusal(Refused(503, sentence, RETRY))
        return _json({"status": "ready"})

    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT)

    async def model() -> Response:
        return _json(_model(service))

    text = {"description": "Text", "content": {"text/plain": {}}}
    routes: tuple[tuple[Any, str, dict[int | str, dict[str, Any]]], ...] = (
        (health, "Is the process alive?", {200: simple("alive")}),
        (ready, "Is the model loaded and warmed up?", {200: simple("ready"), **answers(503)}),
        (metrics, "Prometheus metrics", {200: text}),
        (model, "Inputs and outputs of the model", {200: model_schema()}),
    )
    for route, summary, responses in routes:
        path = f"/{route.__name__}"
        app.add_api_route(path, route, methods=["GET"], summary=summary, responses=responses, response_class=Response)


def _add_pages(app: FastAPI, service: Service) -> None:
    async def page() -> Response:
        return Response(
            try_page(
                service.first.artifact,
                service.first.inputs,
                key=bool(service.key),
                samples=service.read_samples is not None,
            ),
            media_type="text/html",
        )

    async def docs() -> Response:
        return Response(docs_page(app.openapi()), media_type="text/html")

    @cache
    def document() -> bytes:
        return json.dumps(app.openapi()).encode()

    async def openapi() -> Response:
        return Response(document(), media_type="application/json")

    async def samples() -> Response:
        return Response(await service.page_samples(), media_type="application/json")

    for path, route in (("/", page), ("/docs", docs), ("/openapi.json", openapi), ("/samples", samples)):
        app.add_api_route(path, route, methods=["GET"], include_in_schema=False, response_class=Response)


def _model(service: Service) -> dict[str, Any]:
    model = service.first
    artifact, preprocessing = model.artifact, model.artifact.preprocessing
    large = ("words", "vocabulary")
    return {
        "name": artifact.name,
        "target": artifact.target,
        "task": artifact.task,
        "classes": list(artifact.classes),
        "inputs": [
            {"name": port.name, "dtype": port.dtype, "shape": list(port.shape), "most": list(port.most)}
            for port in artifact.inputs
        ],
        "preprocessing": {name: value for name, value in preprocessing.items() if name not in large},
        "batch": model.batcher.batch,
        "latency_ms": service.limits.latency * 1e3 if model.batcher.limited else None,
        "max_body": service.limits.body,
    }


def _json(value: Any) -> Response:
    return Response(json.dumps(value), media_type="application/json")
