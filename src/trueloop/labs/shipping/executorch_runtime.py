"""executorch-runtime: Does a program for a phone give the model's answers here?

ExecuTorch plans all memory before the program runs: there is no allocator, no Python and no torch on the device. The
price is that every free size needs a limit. Its runtime also runs on this machine, so that a program can be compared
before it is on any phone.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy

from trueloop.export.catalogue import runner_of
from trueloop.labs.lab import Lab, Page
from trueloop.labs.trained_here import export_here, trained_on_images
from trueloop.results.document import Code

__all__ = ["LAB"]


def exported() -> dict[str, Any]:
    trained = trained_on_images()
    with tempfile.TemporaryDirectory() as folder:
        artifact = export_here(trained, "executorch", Path(folder))
        runner = runner_of(artifact)
        images = numpy.zeros((2, 1, 8, 8), dtype=numpy.uint8)
        first = runner.run([images])[0]
        again = runner.run([images])[0]
        size = artifact.file.stat().st_size
    tried = artifact.verification
    assert tried is not None
    return {
        "runtime": tried.runtime,
        "samples": tried.samples,
        "error": tried.max_error,
        "tolerance": tried.tolerance,
        "different": tried.disagreements + tried.ties,
        "largest_batch": artifact.inputs[0].limit(0) or 0,
        "bytes": size,
        "weights": sum(each.nbytes for each in trained.model.state_dict().values()),
        "repeats": bool((first == again).all()),
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    names = {"runtime": "by", "samples": "samples", "error": "largest difference", "bytes": "bytes of the program"}
    page.table("Exported to ExecuTorch", ("", "measured"), [(names[name], str(measured[name])) for name in names])
    page.says("Scores are those of the model, up to rounding.", measured["error"] <= measured["tolerance"])
    page.says("Every prediction is the same.", measured["different"] == 0)
    page.says("Memory is planned ahead: a batch may have at most 64 samples.", measured["largest_batch"] == 64)
    page.says("Called twice, the program gives bit-identical answers.", measured["repeats"])
    page.says(
        "A program of a few kernels is little more than its weights.", measured["bytes"] < 4 * measured["weights"]
    )
    page.show(Code("trueloop export runs/NAME --to executorch", title="The same for a run"))


LAB = Lab(code=(exported,), measure=exported, answer=answer, needs="package executorch", seconds=120)
