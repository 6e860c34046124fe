"""Prometheus metrics of the server."""

from collections.abc import Callable
from typing import Final, final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

__all__ = ["CONTENT", "GRPC", "GRPC_INFER", "MALFORMED", "Metrics"]

CONTENT: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
INFER: Final = "/v2/infer"  # The label of /v2/models/NAME/infer
GRPC, GRPC_INFER = "grpc", "grpc/infer"  # The labels of gRPC methods; their statuses are those of HTTP
ROUTES: Final = frozenset(
    (
        *("/", "/predict", "/preview", "/samples", "/health", "/ready", "/metrics", "/model", "/docs", "/openapi.json"),
        *("/v2", INFER, "/v1/completions", "/v1/models", GRPC, GRPC_INFER),
    )
)
"""Paths with their own label; all others share one, so that invented paths cannot fill the memory."""
MALFORMED: Final = "malformed"  # The label of requests that the HTTP parser refused: they have no path


@final
class Metrics:
    """One registry per server."""

    def __init__(self, waiting: Callable[[], int], ready: Callable[[], bool]) -> None:
        self.registry = registry = CollectorRegistry()
        self.counts: dict[tuple[str, int], Counter] = {}  # Cache of (path, status): `labels` is slower than counting
        self.requests = Counter("trueloop_requests_total", "Answered requests", ("path", "status"), registry=registry)
        self.seconds = Histogram("trueloop_predict_seconds", "Time of predictions", buckets=SECONDS, registry=registry)
        self.batches = Histogram("trueloop_batch_samples", "Samples per batch", buckets=SIZES, registry=registry)
        self.computing = Histogram(
            "trueloop_compute_seconds", "Compute time of a batch", buckets=SECONDS, registry=registry
        )
        self.restarts = Counter("trueloop_worker_restarts_total", "Model processes started again", registry=registry)
        self.tokens = Counter("trueloop_tokens_total", "Tokens that a language model wrote", registry=registry)
        self.taken = Gauge("trueloop_taken_requests", "Requests to /predict in progress", registry=registry)
        Gauge("trueloop_waiting_samples", "Samples in the queue", registry=registry).set_function(waiting)
        Gauge("trueloop_ready", "1: the model is warmed up", registry=registry).set_function(lambda: float(ready()))
        ProcessCollector(registry=registry)

    def answered(self, path: str, status: int, seconds: float) -> None:
        if path.startswith("/v2/"):
            path = INFER if path.endswith("/infer") else "/v2"
        count = self.counts.get((path, status))
        if count is None:
            known = path if path in ROUTES or path == MALFORMED else "other"
            count = self.requests.labels(known, str(status))
            if known == path:
                self.counts[path, status] = count
        count.inc()
        if path in ("/predict", INFER, GRPC_INFER) and status < 400:  # quick rejections would hide slow answers
            self.seconds.observe(seconds)

    def computed(self, samples: int, seconds: float) -> None:
        self.batches.observe(samples)
        self.computing.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
