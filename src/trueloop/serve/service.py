"""The served model: from a request to samples, and from outputs to an answer."""

import asyncio
import hashlib
import hmac
import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Final, final

from starlette.datastructures import Headers, QueryParams
from starlette.formparsers import MultiPartException, MultiPartParser

from trueloop.export.exporter import Runner
from trueloop.results.artifact import Artifact, prediction_of
from trueloop.serve.asgi import PlainRequest
from trueloop.serve.batching import Batcher, Sample
from trueloop.serve.inputs import Inputs
from trueloop.serve.limits import Budget, Limits, Refused, read_body
from trueloop.serve.metrics import Metrics
from trueloop.serve.openapi import request_body
from trueloop.serve.worker import WorkerRunner

__all__ = ["Service"]

INLINE: Final = 2**16  # Bytes of JSON that are parsed in the event loop: handing them to a thread is slower
DECODING: Final = 2  # Images and large bodies decoded at the same time: each may take tens of megabytes
ENCODER: Final = json.JSONEncoder(allow_nan=False)


@final
class Service:
    def __init__(
        self, artifact: Artifact, open_runner: Callable[[], Runner], limits: Limits, *, key: str = "", workers: int = 0
    ) -> None:
        """`workers`: processes that compute; 0: the model is in this process."""
        self.artifact, self.limits = artifact, limits
        self.key = hashlib.sha256(key.encode()).digest() if key else b""
        self.inputs = Inputs(artifact, limits)
        self.metrics = Metrics(lambda: len(self.batcher.waiting), lambda: self.batcher.ready)
        opened = partial(WorkerRunner, open_runner, self._lost) if workers else open_runner
        self.batcher = Batcher(artifact, opened, limits, self.metrics.computed, workers or 1)
        self.budget = Budget(limits.held, "The server is reading too many requests")
        self.unread = Budget(limits.unread, "The server is sending too many answers that are not read")
        self.decoding = asyncio.Semaphore(DECODING)
        self.draining = False  # After SIGTERM: requests on open connections are still answered, then closed

    def _lost(self, sentence: str) -> None:
        self.metrics.restarts.inc()
        print(f"trueloop: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 - the server's log

    def accepts_key(self, headers: Mapping[bytes, bytes]) -> bool:
        """`Authorization: Bearer KEY` (the scheme in any case) or `X-API-Key: KEY`, compared in constant time."""
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not given.strip():
            given = headers.get(b"x-api-key", b"")
        return not self.key or hmac.compare_digest(hashlib.sha256(given.strip()).digest(), self.key)

    async def predict(self, request: PlainRequest) -> bytes:
        """JSON. Raises Refused."""
        with self.metrics.taken.track_inprogress():
            outputs = await self.batcher.submit(await self._samples(request))
        try:
            predictions = [prediction_of(self.artifact, [each.tolist() for each in output]) for output in outputs]
            return ENCODER.encode({"predictions": predictions}).encode()
        except (ValueError, OverflowError):
            raise Refused(422, "The model's output for this input is NaN or Inf.") from None

    async def _samples(self, request: PlainRequest) -> list[Sample]:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        query = request.scope["query_string"]
        resize = QueryParams(query).get("resize", "false").lower() if query else "false"
        if resize not in ("true", "false"):
            raise Refused(422, "resize must be true or false.")
        read = self._reader(kind, resize == "true")
        with self.budget.share() as share:
            body = await read_body(request, self.limits, share)
            if kind == "multipart/form-data":
                return await self._of_form(request, body, resize == "true")
            if kind == "application/json" and len(body) <= INLINE and b"base64" not in body:
                return read(body)
            async with self.decoding:
                return await asyncio.to_thread(read, body)

    def _reader(self, kind: str, resize: bool) -> Callable[[bytes], list[Sample]]:
        inputs = self.inputs
        match kind:
            case "application/json":
                return inputs.of_json
            case "text/plain" if inputs.encode is not None:
                return inputs.of_text
            case "image/png" | "image/jpeg" | "multipart/form-data" if inputs.takes_pictures:
                return lambda body: [inputs.of_picture(body, resize=resize)]
            case _:
                kinds = f"this model accepts {', '.join(request_body(self.artifact, inputs)['content'])}"
                raise Refused(415, f"Content type {kind[:80] or '(none)'!r} is not supported; {kinds}.")

    async def _of_form(self, request: PlainRequest, body: bytes, resize: bool) -> list[Sample]:
        """The images of a form, under any field name."""
        parser = MultiPartParser(Headers(request.headers), _stream(body), max_files=self.limits.queue, max_fields=0)
        parser.spool_max_size = self.limits.body  # in memory, never on disk
        try:
            form = await parser.parse()
        except (MultiPartException, KeyError, ValueError, AssertionError):
            raise Refused(400, "The form cannot be parsed: it is damaged, or has fields that are not files.") from None
        try:
            files = [await value.read() for _, value in form.multi_items() if not isinstance(value, str)]
        finally:
            await form.close()
        if not files:
            raise Refused(422, "The form has no file.")
        made = []
        for at, data in enumerate(files):
            async with self.decoding:
                where = f"File {at + 1}"
                made.append(await asyncio.to_thread(self.inputs.of_picture, data, resize=resize, where=where))
        return made


async def _stream(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
