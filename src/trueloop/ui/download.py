"""The trace of a run as a download: for Perfetto, which opens such files on the reader's own machine."""

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from trueloop.errors import TrueloopError
from trueloop.ui.bounded_files import open_inside
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.profile_file import TRACE

__all__ = ["send_trace"]

BLOCK: Final = 1 << 20


def send_trace(library: Library) -> Callable[[Request], Any]:
    def answer(request: Request) -> Response:
        try:
            folder = library.folder(Query.parse(request.scope["query_string"]).text("run"))
        except (TrueloopError, ValueError) as error:
            return PlainTextResponse(str(error)[:2000], 404)
        file = open_inside(folder, TRACE)
        if file is None:
            return PlainTextResponse(f"This run has no {TRACE}.", 404)
        headers = {"content-disposition": f'attachment; filename="{TRACE}"'}
        return StreamingResponse(_blocks(file), media_type="application/octet-stream", headers=headers)

    return answer


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while block := file.read(BLOCK):
            yield block
