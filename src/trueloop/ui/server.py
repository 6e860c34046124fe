"""The web server of `trueloop ui`: static files, plotly.js out of its wheel, the pages' data as JSON, live events.

It answers GET and HEAD only, to requests whose Host is this machine, with a content security policy that allows nothing
but its own files.
"""

import asyncio
import base64
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from trueloop.errors import MissingExtra, TrueloopError
from trueloop.report.page import STYLE, full_page
from trueloop.results.plain import as_plain
from trueloop.ui.download import send_trace
from trueloop.ui.library import Library
from trueloop.ui.page import Page, Query
from trueloop.ui.page_list import PAGES
from trueloop.ui.run_rows import id_of

__all__ = ["BODY", "SHEETS", "STATIC", "create_app", "import_map", "listen", "plotly_file", "serve"]

STATIC: Final = Path(__file__).with_name("static")
SHEETS: Final = (STYLE, STATIC / "ui.css", STATIC / "pages.css")
BODY: Final = """<a class="skip" href="#content">Skip to the content</a>
<header id="bar"></header>
<main id="content" tabindex="-1"></main>"""
HOSTS: Final = ["127.0.0.1", "localhost"]
POLL: Final = 0.5  # Seconds between two looks at the files of a run
HEARTBEAT: Final = 20  # Looks without a change, after which a comment is sent: so a closed page is noticed
_KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


# -- files --


@cache
def plotly_file() -> Path:
    """plotly.js in the installed wheel. Raises MissingExtra."""
    spec = find_spec("plotly")
    for place in (spec.submodule_search_locations or []) if spec else []:
        file = Path(place, "package_data", "plotly.min.js")
        if file.is_file():
            return file
    raise MissingExtra("The page needs the package plotly: pip install 'trueloop[ui]'")


def import_map() -> str:
    """Names of our modules -> their addresses: a module imports another by name, wherever both come from."""
    names = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.js"))
    return json.dumps({"imports": {f"ui/{name}": f"/static/{name}" for name in names}})


@cache
def _index() -> tuple[bytes, str]:
    """(the page, its content security policy)."""
    table = import_map()
    digest = base64.b64encode(hashlib.sha256(table.encode()).digest()).decode()
    policy = (
        "default-src 'none'; "
        f"script-src 'self' 'sha256-{digest}'; "
        "style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    head = f"""<link rel="icon" href="/static/icon.svg">
{_sheets()}
<script type="importmap">{table}</script>
<script type="module" src="/static/app.js"></script>"""
    return full_page("trueloop", head, BODY).encode(), policy


def _sheets() -> str:
    """plotly.js makes inline style sheets, which our policy forbids, unless elements with their ids are there."""
    own = [f'<link rel="stylesheet" href="/static/{sheet.name}">' for sheet in SHEETS]
    code = plotly_file().read_text(encoding="utf-8")
    ids = dict.fromkeys(["plotly.js-style-global", *re.findall(r'getElementById\("([0-9a-f]{64})"\)', code)])
    return "\n".join([*own, *(f'<link rel="stylesheet" href="/static/plotly.css" id="{each}">' for each in ids)])


async def _page(request: Request) -> Response:
    return Response(_index()[0], media_type="text/html")


async def _static(request: Request) -> Response:
    # Of a fixed list: nothing that an address says becomes a path.
    file = _static_files().get(request.path_params["name"])
    if file is None:
        return PlainTextResponse("There is no such file.", 404)
    return FileResponse(file, media_type=_KINDS.get(file.suffix, "application/octet-stream"))


@cache
def _static_files() -> dict[str, Path]:
    own = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*") if path.suffix in _KINDS}
    return {**own, STYLE.name: STYLE, "plotly.min.js": plotly_file()}


# -- data --


def _json(value: Any, status: int = 200) -> Response:
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError):  # NaN, Inf, tuples of tuples: rare, and costly to look for each time
        text = json.dumps(as_plain(value), allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, media_type="application/json")


def _answer(page: Page, library: Library) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        try:
            query = Query.parse(request.scope["query_string"])
            return _json(await run_in_threadpool(page.data, library, query))
        except (TrueloopError, ValueError, RecursionError) as error:
            return _json({"error": str(error)[:2000]}, 404)

    return answer


def _pages(library: Library) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        pages = [{"name": page.name, "title": page.title, "place": page.place} for page in PAGES]
        return _json(
            {"pages": pages, "folder": str(library.root), "only": id_of(library.only) if library.only else None}
        )

    return answer


# -- live --


def _live(library: Library) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        name = Query.parse(request.scope["query_string"]).text("run")
        events = _run_events(library, name, request) if name else _folder_events(library, request)
        return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})

    return answer


def _event(value: Any) -> bytes:
    return f"data: {json.dumps(as_plain(value))}\n\n".encode()


async def _run_events(library: Library, name: str, request: Request) -> AsyncIterator[bytes]:
    """An event whenever a file of a run changes: what is new was read by then, by offset."""
    state: tuple[object, ...] | None = None
    complete = True
    quiet = 0
    yield b": connected\n\n"
    while not (request.app.state.stopping() or await request.is_disconnected()):
        try:
            now = await run_in_threadpool(library.state, name)
            if now != state or not complete:
                columns, whole = await run_in_threadpool(library.columns, name)
                if now != state or whole != complete:
                    yield _event({"version": columns.version, "complete": whole, "running": now[0]})
                state, complete, quiet = now, whole, 0
        except TrueloopError as error:
            yield _event({"error": str(error)})
            return
        quiet += 1
        if quiet % HEARTBEAT == 0:
            yield b": still here\n\n"
        await asyncio.sleep(POLL)


async def _folder_events(library: Library, request: Request) -> AsyncIterator[bytes]:
    """An event whenever runs come, change or go: their rows in the table of runs."""
    seen: dict[str, tuple[object, ...]] = {}
    await run_in_threadpool(library.changes, seen)
    quiet = 0
    yield b": connected\n\n"
    while not (request.app.state.stopping() or await request.is_disconnected()):
        began = time.monotonic()
        changed = await run_in_threadpool(library.changes, seen)
        if changed:
            quiet = 0
            yield _event({"changed": [id_of(name) for name in changed]})
        quiet += 1
        if quiet % HEARTBEAT == 0:
            yield b": still here\n\n"
        # A tenth of the time at most: looking at very many runs takes a while.
        await asyncio.sleep(max(2 * POLL, 9 * (time.monotonic() - began)))


# -- the application --


class _Headers:
    """The same safe headers on every answer; other methods than GET and HEAD are refused."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_safe_headers()]
            await send(message)

        if scope["method"] not in ("GET", "HEAD"):
            refusal = PlainTextResponse("This page only reads: GET and HEAD.", 405, {"allow": "GET, HEAD"})
            await refusal(scope, receive, send_with_headers)
            return
        await self.app(scope, receive, send_with_headers)


@cache
def _safe_headers() -> tuple[tuple[bytes, bytes], ...]:
    headers = {
        "content-security-policy": _index()[1],
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-cache",
    }
    return tuple((name.encode(), value.encode()) for name, value in headers.items())


def create_app(library: Library, stopping: Callable[[], bool] = lambda: False) -> Starlette:
    data = [Route(f"/api/{page.name}", _answer(page, library)) for page in PAGES]
    routes = [
        Route("/", _page),
        Route("/static/{name:path}", _static),
        Route("/api/pages", _pages(library)),
        Route("/api/live", _live(library)),
        Route("/api/trace", send_trace(library)),
        *data,
    ]
    # The headers are outermost: refusals of a foreign Host carry them too.
    middleware = [
        Middleware(_Headers),
        Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False),
    ]
    app = Starlette(routes=routes, middleware=middleware)
    app.state.stopping = stopping
    return app


def listen(port: int) -> socket.socket:
    """A socket on this machine only; port 0 is any free one. Raises OSError."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name != "nt":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)  # before the address is printed: who opens it at once is answered, a moment later
    except OSError:
        listener.close()
        raise
    return listener


def serve(library: Library, listener: socket.socket) -> None:
    """Until Ctrl-C or SIGTERM."""
    # Pages that listen for events must not hold up the end.
    app = create_app(library, lambda: server.should_exit)
    config = uvicorn.Config(app, log_level="warning", lifespan="off", access_log=False, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    server.run(sockets=[listener])
