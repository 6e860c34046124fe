"""What compute-sanitizer prints, and what is made of it. The reports have its format; one is the tool's own, from a
machine without a CUDA device. On a GPU, tests/gpu/test_op_claims.py runs it on a kernel with a planted fault."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
import torch

from tests.op_claims.cases import Case
from tests.op_claims.probing import probed
from trueloop.op_claims.sample import Sample
from trueloop.op_claims.sanitizer import Sanitized, parse_report, sanitize, sanitizer_path

OUT_OF_BOUNDS = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at fill_kernel+0x1a0 in /home/me/ops.py:12
=========     by thread (100,0,0) in block (4,0,0)
=========     Access to 0x7f40c0000190 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f40c0000000 of size 400 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at fill_kernel+0x1a0 in /home/me/ops.py:12
=========     by thread (101,0,0) in block (4,0,0)
=========     Access to 0x7f40c0000194 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0x7f40c0000000 of size 400 bytes
=========
2 calls done
========= ERROR SUMMARY: 2 errors
"""
OLDER = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4
=========     at 0x70 in /home/me/op.cu:10:kernel(float*, int)
=========     by thread (32,0,0) in block (0,0,0)
=========     Address 0x7f40c0000190 is out of bounds
========= ERROR SUMMARY: 1 error
"""
WITHOUT_DEVICE = """\
========= COMPUTE-SANITIZER
hello
========= Error: Target application terminated before first instrumented API call
========= Error: couldn't find exit code.
"""


def test_the_first_error_is_named_with_its_kernel_and_line() -> None:
    found = parse_report(OUT_OF_BOUNDS)
    assert found.errors == 2
    assert found.wrong == (
        "invalid __global__ write of size 4 bytes at fill_kernel+0x1a0 in /home/me/ops.py:12, "
        "1 bytes after the nearest allocation, of 400 bytes"
    )
    assert found.details[2] == "by thread (100,0,0) in block (4,0,0)"
    assert not found.not_run


def test_the_older_format() -> None:
    found = parse_report(OLDER)
    assert found.wrong == "invalid __global__ read of size 4 at 0x70 in /home/me/op.cu:10:kernel(float*, int)"
    assert found.errors == 1


def test_no_error_is_one_only_if_all_calls_were_made() -> None:
    assert parse_report(
        "========= COMPUTE-SANITIZER\n3 calls done\n========= ERROR SUMMARY: 0 errors\n"
    ) == parse_report("\x1b[1m========= COMPUTE-SANITIZER\x1b[0m\n3 calls done\n========= ERROR SUMMARY: 0 errors")
    assert not parse_report("========= COMPUTE-SANITIZER\n3 calls done\n========= ERROR SUMMARY: 0 errors").not_run
    cut = parse_report("========= COMPUTE-SANITIZER\nKeyError: 'x'\n========= ERROR SUMMARY: 0 errors")
    assert cut.not_run == "compute-sanitizer did not finish (KeyError: 'x')"
    assert "terminated before first instrumented API call" in parse_report(WITHOUT_DEVICE).not_run
    assert parse_report("").not_run == "compute-sanitizer did not finish (it printed nothing)"


def test_where_it_is_not_installed_that_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.op_claims.sanitizer.sanitizer_path", lambda: None)
    assert sanitize("ops.py:op", []).not_run == "compute-sanitizer is not installed"
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    (tmp_path / "cuda" / "bin").mkdir(parents=True)
    tool = tmp_path / "cuda" / "bin" / "compute-sanitizer"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    assert sanitizer_path() == str(tool)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there the tool itself is run")
def test_each_sample_is_called_in_a_process_of_its_own(tmp_path: Path) -> None:
    """Everything but the tool is real: an executable in its place runs what it is asked to run, and adds its frame."""
    tool = tmp_path / "compute-sanitizer"
    starts = f"import subprocess, sys\nwords = sys.argv[sys.argv.index({sys.executable!r}):]\n"
    frame = "print('========= COMPUTE-SANITIZER', flush=True)\nsubprocess.run(words)\n"
    tool.write_text(f"#!{sys.executable}\n{starts}{frame}print('========= ERROR SUMMARY: 0 errors')\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "ops.py").write_text("import torch\n\n\ndef op(x, scale):\n    return x * scale\n")
    samples = [Sample((torch.ones(2, 3), 2.0)), Sample((torch.ones(0),), {"scale": 3})]
    assert sanitize(f"{tmp_path / 'ops.py'}:op", samples, str(tool)) == Sanitized()
    (tmp_path / "broken.py").write_text("raise ValueError('not loaded')\n")
    assert "ValueError: not loaded" in sanitize(f"{tmp_path / 'broken.py'}:op", samples, str(tool)).not_run


def test_on_a_cpu_the_claim_says_what_is_not_guarded() -> None:
    case = Case(torch.relu, "relu", "torch.relu", ("f32[4,8]",), "", "")
    (proof,) = probed(case, "memory-stays-inside-tensors").proofs
    assert proof.result == "holds"
    assert proof.measured.endswith("memory of the results is not guarded")
