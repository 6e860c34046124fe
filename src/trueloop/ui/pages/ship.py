"""Is the model of a run ready to leave? Exports, quantization, speed, serving, readiness and proofs, each with the
command that would fill a gap."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trueloop.claims.catalogue import sentences
from trueloop.errors import NotARun
from trueloop.ui.bounded_files import read_json, read_text
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.run_rows import is_running, read_about, short

__all__ = ["data"]

MOST_EXPORTS: Final = 50
MOST_LAYERS: Final = 500
VERIFIED: Final = (
    *("split", "samples", "tolerance", "max_error", "scale", "disagreements", "metrics", "runtime", "first_differing"),
)
SERVED: Final = "serve-metrics.txt"
"""Of a server of this model: `curl http://127.0.0.1:8000/metrics > RUN/serve-metrics.txt`."""


def data(library: Library, query: Query) -> dict[str, Any]:
    folder = library.folder(query.text("run"))
    about = read_about(folder)
    problems: list[str] = []

    def read(name: str) -> dict[str, Any] | None:
        try:
            value = read_json(folder, name)
        except NotARun as error:
            problems.append(str(error))
            return None
        return value if isinstance(value, dict) else None

    exports = [_export(folder, name, problems) for name in _exports(folder)]
    return {
        "run": f"runs/{folder.name}",
        "trained": about.get("kind", "train") == "train" and not about.get("session"),
        "running": is_running(folder),
        "exports": [each for each in exports if each],
        "quantize": _quantize(read("quantize.json")),
        "bench": _bench(read("bench.json")),
        "served": _served(read_text(folder, SERVED, 1 << 18)),
        "readiness": (read_text(folder, "training-readiness.md", 1 << 18) or "")[: 1 << 18],
        "proofs": _proofs(read("proofs.json")),
        "problems": problems,
    }


def _exports(folder: Path) -> list[str]:
    try:
        with os.scandir(folder / "export") as entries:
            names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(names)[:MOST_EXPORTS]


def _export(folder: Path, name: str, problems: list[str]) -> dict[str, Any] | None:
    try:
        found = read_json(folder, f"export/{name}/artifact.json")
    except NotARun as error:
        problems.append(f"export/{short(name)}: {error}")
        return None
    if not isinstance(found, dict):
        return None
    files = found.get("files")
    sizes = [each.get("bytes") for each in files.values() if isinstance(each, dict)] if isinstance(files, dict) else []
    verified = found.get("verification")
    runtime = found.get("runtime")
    kept = {key: verified.get(key) for key in VERIFIED} if isinstance(verified, dict) else None
    package = [runtime.get("package"), runtime.get("version")] if isinstance(runtime, dict) else []
    return {
        "folder": short(name),
        "target": short(found.get("target")),
        "bytes": sum(each for each in sizes if isinstance(each, int)),
        "runtime": " ".join(str(each)[:40] for each in package if each),
        "verification": kept,
        "passed": _passed(kept),
    }


def _passed(verified: dict[str, Any] | None) -> bool | None:
    """As `Verification.passed`; None: not verified."""
    if verified is None:
        return None
    with suppress(TypeError):
        return bool(
            verified["max_error"] <= verified["tolerance"] * verified["scale"] and not verified["disagreements"]
        )
    return False


def _quantize(found: dict[str, Any] | None) -> dict[str, Any] | None:
    if found is None or not isinstance(found.get("layers"), list):
        return None
    names = ("scheme", "target", "metric", "before", "after", "drop", "within", "smaller", "size_before", "size_after")
    layers = [
        {key: short(layer.get(key)) for key in ("name", "kind", "before", "after", "error", "drop", "kept")}
        for layer in found["layers"][:MOST_LAYERS]
        if isinstance(layer, dict)
    ]
    return {**{name: short(found.get(name)) for name in names}, "layers": layers}


def _bench(found: dict[str, Any] | None) -> dict[str, Any] | None:
    if found is None or not isinstance(found.get("forms"), list):
        return None
    forms = []
    for form in found["forms"][:50]:
        if isinstance(form, dict):
            paces = form.get("paces")
            rows = [each for each in paces if isinstance(each, dict)][:20] if isinstance(paces, list) else []
            kept = [
                {key: short(each.get(key)) for key in ("batch", "p50", "p95", "p99", "per_second")} for each in rows
            ]
            forms.append(
                {**{key: short(form.get(key)) for key in ("name", "runtime", "bytes", "failed")}, "paces": kept}
            )
    return {"forms": forms}


def _served(text: str | None) -> list[list[str]] | None:
    """[name, value] of what a server counted; buckets of histograms are left out."""
    if text is None:
        return None
    rows = []
    for line in text.splitlines()[:5000]:
        name, _, value = line.rpartition(" ")
        if name.startswith("trueloop_") and "_bucket{" not in name and not name.endswith("_created"):
            rows.append([name[:200], value[:40]])
    return rows[:100]


def _proofs(found: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Every claim that can be tested: with its result, or untested."""
    listed = found.get("proofs") if found else None
    tested = (
        {str(each.get("claim")): each for each in listed if isinstance(each, dict)} if isinstance(listed, list) else {}
    )
    rows = []
    for claim, sentence in sentences().items():
        proof = tested.get(claim, {})
        measured = proof.get("measured")
        rows.append(
            {
                "claim": claim,
                "sentence": sentence,
                "result": proof.get("result") if proof.get("result") in ("holds", "fails", "unproved") else "",
                "measured": measured[:1000] if isinstance(measured, str) else "",
            }
        )
    return rows
