"""The served models: from a request to samples, from outputs to an answer, and from one version to the next."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

from starlette.datastructures import Headers, QueryParams
from starlette.formparsers import MultiPartException, MultiPartParser

from trueloop.errors import Misuse, TrueloopError
from trueloop.results.artifact import Artifact, prediction_of
from trueloop.serve.asgi import PlainRequest
from trueloop.serve.batching import Batcher, Sample
from trueloop.serve.host import Host
from trueloop.serve.inputs import Inputs
from trueloop.serve.limits import Limits, Refused, read_body
from trueloop.serve.model import Model, Source
from trueloop.serve.openapi import request_body
from trueloop.serve.worker import WorkerRunner, open_here

__all__ = ["Service"]

INLINE: Final = 2**16  # Bytes of JSON that are parsed in the event loop: handing them to a thread is slower
DECODING: Final = 2  # Images and large bodies decoded at the same time: each may take tens of megabytes
ENCODER: Final = json.JSONEncoder(allow_nan=False)
ReadSamples = Callable[[Artifact], dict[str, Any]]


@final
class Service(Host):
    """Models under one address; the first is the one that /predict asks unless told otherwise."""

    def __init__(
        self,
        sources: Sequence[Source],
        limits: Limits,
        *,
        key: str = "",
        workers: int = 0,
        samples: ReadSamples | None = None,
    ) -> None:
        """`workers`: processes that compute, for each model; 0: the models are in this process. `samples`: of the run's
        validation data, for the page; None: it shows none."""
        super().__init__(limits, key)
        self.workers, self.read_samples = workers, samples
        self.samples: tuple[Model, asyncio.Task[dict[str, Any]]] | None = None  # Of which version they are
        self.versions: dict[str, dict[int, Model]] = {}  # By name and number, the newest last
        for source in sources:
            self._add(self._open(source, source.version or 1))
        self.decoding = asyncio.Semaphore(DECODING)
        self.reloading = asyncio.Lock()

    def _open(self, source: Source, version: int) -> Model:
        artifact, open_runner = source.read()
        opened = partial(WorkerRunner if self.workers else open_here, open_runner, self._lost)
        batcher = Batcher(artifact, opened, self.limits, self.metrics.computed, self.workers or 1)
        return Model(source.name or artifact.name, version, source, artifact, Inputs(artifact, self.limits), batcher)

    def _add(self, model: Model) -> None:
        """Raises Misuse: nobody could ask for one of two models."""
        versions = self.versions.setdefault(model.name, {})
        counted = any(not each.source.version for each in (model, *versions.values()))
        if model.version in versions or (versions and counted):
            typed = f"`trueloop serve {model.name}:1=ARTIFACT {model.name}:2=ARTIFACT`"
            raise Misuse(f"Two models are called {model.title!r}. Nothing was served: type {typed}, or give two names.")
        versions[model.version] = model
        self.versions[model.name] = dict(sorted(versions.items()))

    # -- its models --

    @property
    def models(self) -> list[Model]:
        return [model for versions in self.versions.values() for model in versions.values()]

    @property
    def first(self) -> Model:
        return self.named(next(iter(self.versions)))

    @property
    def ready(self) -> bool:
        return all(model.batcher.ready for model in self.models)

    @property
    def failure(self) -> BaseException | None:
        """Why a model could not be loaded."""
        failures = (model.batcher.failure for model in self.models)
        return next((failure for failure in failures if failure is not None), None)

    @property
    def waiting(self) -> int:
        return sum(len(model.batcher.waiting) for model in self.models)

    def named(self, name: str, version: str = "") -> Model:
        """`version`: empty for the newest. Raises Refused."""
        if name not in self.versions:
            here = " or ".join(map(repr, self.versions))
            raise Refused(404, f"There is no model {name[:80]!r} here: it is {here}.")
        models = {str(number): model for number, model in self.versions[name].items()}
        asked = version or next(reversed(models))
        if asked not in models:
            versions = "versions" if len(models) > 1 else "version"
            raise Refused(404, f"{name} has {versions} {' and '.join(models)} only.")
        return models[asked]

    def numbers(self, name: str) -> list[str]:
        """The versions that a request may ask for."""
        return [str(number) for number in self.versions[name]]

    @contextmanager
    def using(self, model: Model) -> Iterator[Model]:
        """A request: a version that is replaced meanwhile still answers it."""
        model.requests += 1
        try:
            yield model
        finally:
            model.requests -= 1
            self._end_if_replaced(model)

    def _end_if_replaced(self, model: Model) -> None:
        if model.replaced and not model.requests:
            model.batcher.stop()
            self.keep(asyncio.to_thread(_end, model))

    def start(self, started: Callable[[], None]) -> None:
        """`started` is called once: when all models are ready, or one has failed to load."""
        called = False

        def one() -> None:
            nonlocal called
            if not called and (self.ready or self.failure is not None):
                called = True
                started()

        for model in self.models:
            model.batcher.start(one)

    def stop(self) -> None:
        for model in self.models:
            model.batcher.stop()

    def close(self, seconds: float) -> None:
        """Batches that are not computed within these seconds never will be."""
        for model in self.models:
            model.batcher.join(seconds)
            model.batcher.close()

    async def reload(self, name: str, say: Callable[[str], None] = lambda _: None) -> None:
        """Each version from its own artifact: an answer with its number, or the next one if they are counted. Raises
        Refused; the old ones then stay from there on."""
        async with self.reloading:
            for old in list(self.versions[name].values()):
                new = await self._replace(name, old)
                say(f"{new.title} was loaded again" if new.source.version else f"{name} is version {new.version} now")

    async def _replace(self, name: str, old: Model) -> Model:
        """What is loaded, when it is ready and has replaced the old one."""
        try:
            new = await asyncio.to_thread(self._open, old.source, old.source.version or old.version + 1)
            finished = asyncio.Event()
            new.batcher.start(finished.set)
            await finished.wait()
            if new.batcher.failure is not None:
                raise new.batcher.failure
        except TrueloopError as error:
            stays = "The old one" if old.source.version else f"Version {old.version}"
            raise Refused(422, f"{old.title} was not loaded again: {error} {stays} is still served.") from None
        new.name = name  # of the address, whatever the artifact is called now
        others = {version: model for version, model in self.versions[name].items() if model is not old}
        self.versions[name] = dict(sorted({**others, new.version: new}.items()))
        old.replaced = True
        self._end_if_replaced(old)
        return new

    async def reload_all(self, say: Callable[[str], None]) -> None:
        for name in self.versions:
            try:
                await self.reload(name, lambda line: say(f"SIGHUP: {line}"))
            except Refused as refused:
                say(f"SIGHUP: {refused.sentence}")

    def _lost(self, sentence: str) -> None:
        self.metrics.restarts.inc()
        print(f"trueloop: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 - the server's log

    async def predict(self, request: PlainRequest) -> bytes:
        """JSON. Raises Refused."""
        query = request.scope["query_string"]
        asked = QueryParams(query) if query else {}
        model = self.named(asked["model"]) if "model" in asked else self.first
        with self.metrics.taken.track_inprogress(), self.using(model):
            outputs = await model.batcher.submit(await self._samples(request, model, asked.get("resize", "false")))
        try:
            predictions = [prediction_of(model.artifact, [each.tolist() for each in output]) for output in outputs]
            return ENCODER.encode({"predictions": predictions}).encode()
        except (ValueError, OverflowError):
            raise Refused(422, "The model's output for this input is NaN or Inf.") from None

    async def page_samples(self) -> bytes:
        """JSON: validation samples of the first model's run, read when they are first asked for."""
        model = self.first
        if self.read_samples is None:
            return ENCODER.encode({"samples": [], "why": ""}).encode()
        if self.samples is None or self.samples[0] is not model:
            work = asyncio.to_thread(self.read_samples, model.artifact)
            self.samples = (model, asyncio.create_task(work))
        # Shielded: one caller that leaves does not end it for the others.
        return ENCODER.encode(await asyncio.shield(self.samples[1])).encode()

    async def preview(self, request: PlainRequest) -> bytes:
        """JSON: the first sample of a request as the model gets it, for the page. Raises Refused."""
        query = request.scope["query_string"]
        asked = QueryParams(query) if query else {}
        model = self.named(asked["model"]) if "model" in asked else self.first
        sample = (await self._samples(request, model, asked.get("resize", "false")))[0]
        inputs = [
            {"name": port.name, "dtype": port.dtype, "shape": list(array.shape), "values": array.reshape(-1).tolist()}
            for port, array in zip(model.artifact.inputs, sample, strict=True)
        ]
        highest = model.artifact.preprocessing.get("range", (0, 1))[1]
        return ENCODER.encode({"inputs": inputs, "highest": highest}).encode()

    async def _samples(self, request: PlainRequest, model: Model, resize: str) -> list[Sample]:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        resize = resize.lower()
        if resize not in ("true", "false"):
            raise Refused(422, "resize must be true or false.")
        read = self._reader(kind, model, resize == "true")
        with self.budget.share() as share:
            body = await read_body(request, self.limits, share)
            if kind == "multipart/form-data":
                return await self._of_form(request, body, model, resize == "true")
            if kind == "application/json" and len(body) <= INLINE and b"base64" not in body:
                return read(body)
            async with self.decoding:
                return await asyncio.to_thread(read, body)

    def _reader(self, kind: str, model: Model, resize: bool) -> Callable[[bytes], list[Sample]]:
        inputs = model.inputs
        match kind:
            case "application/json":
                return inputs.of_json
            case "text/plain" if inputs.encode is not None:
                return inputs.of_text
            case "image/png" | "image/jpeg" | "multipart/form-data" if inputs.takes_pictures:
                return lambda body: [inputs.of_picture(body, resize=resize)]
            case _:
                kinds = f"this model accepts {', '.join(request_body(model.artifact, inputs)['content'])}"
                raise Refused(415, f"Content type {kind[:80] or '(none)'!r} is not supported; {kinds}.")

    async def _of_form(self, request: PlainRequest, body: bytes, model: Model, resize: bool) -> list[Sample]:
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
                made.append(await asyncio.to_thread(model.inputs.of_picture, data, resize=resize, where=where))
        return made


def _end(model: Model) -> None:
    """Of an old version, after its last request."""
    model.batcher.join()
    model.batcher.close()


async def _stream(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
