"""What is known about a model that is to leave, and the gaps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.ui.folders import make_run
from trueloop.claims.catalogue import names
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.pages import ship

VERIFIED = {"samples": 200, "tolerance": 1e-4, "max_error": 1e-6, "scale": 1.0, "disagreements": 0, "metrics": {}}


def page(folder: Path) -> dict[str, Any]:
    return ship.data(Library(folder), Query([("run", "a")]))


def artifact(run: Path, name: str, content: object) -> None:
    (run / "export" / name).mkdir(parents=True)
    (run / "export" / name / "artifact.json").write_text(json.dumps(content))


def test_an_empty_run_shows_gaps(tmp_path: Path) -> None:
    make_run(tmp_path, "a", [])
    found = page(tmp_path)
    assert (found["exports"], found["quantize"], found["bench"], found["served"]) == ([], None, None, None)
    assert [each["claim"] for each in found["proofs"]] == list(names())
    assert {each["result"] for each in found["proofs"]} == {""}


def test_exports_with_their_verification(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [])
    files = {"model.onnx": {"bytes": 10}, "data": {"bytes": 5}}
    artifact(run, "a-good", {"target": "onnx", "files": files, "verification": VERIFIED})
    artifact(run, "b-bad", {"target": "onnx", "verification": {**VERIFIED, "max_error": 1.0}})
    artifact(run, "c-open", {"target": "pt2", "verification": None})
    artifact(run, "d-damaged", [])
    artifact(run, "e-odd", {"target": "pt2", "verification": {"max_error": "x"}, "files": [], "runtime": 5})
    (run / "export" / "f-link").symlink_to(run / "export" / "a-good")
    found = page(tmp_path)
    assert [each["passed"] for each in found["exports"]] == [True, False, None, False]
    assert found["exports"][0]["bytes"] == 15


def test_quantization_bench_serving_and_proofs(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [])
    layer = {"name": "0", "kind": "linear", "error": 0.1}
    (run / "quantize.json").write_text(json.dumps({"scheme": "fp8", "layers": [layer, 5]}))
    (run / "bench.json").write_text(
        json.dumps({"forms": [{"name": "eager", "paces": [{"batch": 1, "p50": 0.1}, 5]}, 5]})
    )
    counted = 'trueloop_requests_total{path="/predict"} 12.0\ntrueloop_predict_seconds_bucket{le="1"} 3\npython_x 1\n'
    (run / ship.SERVED).write_text(counted)
    (run / "proofs.json").write_text(
        json.dumps({"proofs": [{"claim": names()[0], "result": "fails"}, {"claim": "x"}, 5]})
    )
    (run / "training-readiness.md").write_text("# trueloop ready: a: not ready\n")
    found = page(tmp_path)
    assert [each["name"] for each in found["quantize"]["layers"]] == ["0"]
    assert found["bench"]["forms"][0]["paces"][0]["p50"] == 0.1
    assert found["served"] == [['trueloop_requests_total{path="/predict"}', "12.0"]]
    assert found["proofs"][0]["result"] == "fails"
    assert found["readiness"].endswith("not ready\n")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [])
    for name in ("quantize.json", "bench.json", "proofs.json"):
        (run / name).write_text("{")
    assert len(page(tmp_path)["problems"]) == 3
