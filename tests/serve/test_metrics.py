"""What the server counts of itself."""

from __future__ import annotations

from trueloop.serve.metrics import MALFORMED, Metrics


def lines(metrics: Metrics) -> dict[str, float]:
    told = (line.rsplit(" ", 1) for line in metrics.text().decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in told}


def test_requests_are_counted_by_path_and_status() -> None:
    metrics = Metrics(lambda: 3, lambda: True)
    for status in (200, 200, 422):
        metrics.answered("/predict", status, 0.004)
    found = lines(metrics)
    assert found['trueloop_requests_total{path="/predict",status="200"}'] == 2
    assert found['trueloop_requests_total{path="/predict",status="422"}'] == 1
    assert found['trueloop_predict_seconds_bucket{le="0.0025"}'] == 0
    assert found['trueloop_predict_seconds_bucket{le="0.005"}'] == 2


def test_rejections_are_not_among_the_times_of_answers() -> None:
    metrics = Metrics(lambda: 0, lambda: True)
    metrics.answered("/predict", 200, 0.2)
    for status in (422, 429, 499, 503):
        metrics.answered("/predict", status, 0.0001)
    found = lines(metrics)
    assert (found["trueloop_predict_seconds_count"], found["trueloop_predict_seconds_sum"]) == (1, 0.2)


def test_requests_without_a_path_have_a_label_of_their_own() -> None:
    metrics = Metrics(lambda: 0, lambda: True)
    metrics.answered(MALFORMED, 400, 0.0)
    assert lines(metrics)['trueloop_requests_total{path="malformed",status="400"}'] == 1


def test_paths_that_strangers_invent_are_counted_together() -> None:
    metrics = Metrics(lambda: 0, lambda: True)
    for number in range(1_000):
        metrics.answered(f"/{number}", 404, 0.001)
    found = {name: value for name, value in lines(metrics).items() if name.startswith("trueloop_requests_total")}
    assert found == {'trueloop_requests_total{path="other",status="404"}': 1_000}


def test_only_questions_to_the_model_count_as_such() -> None:
    metrics = Metrics(lambda: 0, lambda: True)
    metrics.answered("/health", 200, 0.001)
    assert lines(metrics)["trueloop_predict_seconds_count"] == 0


def test_batches_are_counted_by_their_size() -> None:
    metrics = Metrics(lambda: 0, lambda: False)
    metrics.computed(3, 0.002)
    metrics.computed(32, 0.02)
    found = lines(metrics)
    assert found["trueloop_batch_samples_sum"] == 35
    assert found['trueloop_batch_samples_bucket{le="4.0"}'] == 1
    assert found["trueloop_compute_seconds_count"] == 2


def test_what_is_now_is_asked_when_it_is_read() -> None:
    waiting = [5]
    metrics = Metrics(lambda: waiting[0], lambda: waiting[0] > 5)
    assert (lines(metrics)["trueloop_waiting_samples"], lines(metrics)["trueloop_ready"]) == (5, 0)
    waiting[0] = 6
    assert (lines(metrics)["trueloop_waiting_samples"], lines(metrics)["trueloop_ready"]) == (6, 1)


def test_two_servers_in_one_process_count_apart() -> None:
    first, second = Metrics(lambda: 0, lambda: True), Metrics(lambda: 0, lambda: True)
    first.answered("/predict", 200, 0.001)
    assert 'trueloop_requests_total{path="/predict",status="200"}' not in lines(second)
