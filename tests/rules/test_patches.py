"""Every diff that a rule offers for its own broken scripts, applied by `patch`: it removes the finding and adds none."""  # noqa: E501

from __future__ import annotations

import linecache
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Checked, check_script
from tests.pages import EXAMPLES, Example, checked
from tests.patching import apply, assert_fixed
from trueloop.finding import Finding
from trueloop.report.patch import render

BROKEN = [example for example in EXAMPLES if example.broken and not example.cuda]
WITH_DIFF = (
    "accumulation-not-averaged",
    "backward-under-autocast",
    "best-weights-not-copied",
    "clipped-before-unscale",
    "clipped-after-step",
    "weight-decay-in-adam",
    "dropout-always-on",
    "evaluated-in-train-mode",
    "every-rank-saves",
    "frozen-layer-updated",
    "gradients-never-cleared",
    "evaluation-without-no-grad",
    "graph-never-freed",
    "incomplete-accumulation-window",
    "layers-in-a-plain-list",
    "optimizer-recreated-every-step",
    "optimizer-state-not-restored",
    "optimizer-never-stepped",
    "plateau-wrong-mode-or-metric",
    "wrapper-prefix-in-checkpoint",
    "set-epoch-not-called",
    "not-shuffled",
    "same-order-every-epoch",
    "scheduler-stepped-before-optimizer",
    "scheduler-never-stepped",
    "scheduler-epoch-batch-mismatch",
    "no-seed-set",
    "shapes-broadcast-in-loss",
    "sigmoid-before-bce-with-logits",
    "softmax-before-cross-entropy",
    "tensor-not-a-buffer",
    "trained-in-eval-mode",
    "unsafe-load",
    "whole-model-pickled",
    "ddp-bypassed",
)
"""Rules that write diffs."""
NO_DIFF = {
    "best-weights-not-copied: Broken: the best weights as arrays, which are views of the weights",
    "gradients-never-cleared: Broken: own sums of gradients, of which zero_grad only drops the name",
    "shapes-broadcast-in-loss: Broken: a pinball loss of a network that is a list of tensors",
    "shapes-broadcast-in-loss: Broken: a variance of [B, 1] beside squared errors of [B]",
    "accumulation-not-averaged: Broken: one batch split into parts, with a scaler",
    "backward-under-autocast: Broken: autocast around a function that trains",
    "clipped-before-unscale: Broken: by value, at the end of a window, unscaled one line too late",
    "clipped-after-step: Broken: by value, parameter by parameter, after zero_grad",
    "clipped-after-step: Broken: between zero_grad and backward",
    "weight-decay-in-adam: Broken: decay for the weights, none for the biases",
    "dropout-always-on: Broken: through a user-defined function",
    "evaluated-in-train-mode: Broken: one function for both phases, which never calls eval()",
    "evaluated-in-train-mode: Broken: the network is trained as a part of a larger module, and evaluated by itself",
    "evaluated-in-train-mode: Broken: the model's own `train()` method drops its argument",
    "evaluated-in-train-mode: Broken: a `train()` method of the encoder drops its argument, "
    "so `eval()` has no effect on it",
    "every-rank-saves: Broken: a checkpoint in each epoch, through an open file",
    "frozen-layer-updated: Broken: batch norm in a frozen encoder",
    "frozen-layer-updated: Broken: a trained backbone that only gives features",
    "frozen-layer-updated: Broken: a frozen teacher in train mode",
    "frozen-layer-updated: Broken: an old gradient that is never cleared",
    "incomplete-accumulation-window: Broken: one epoch, and the run ends before the last step",
    "layers-in-a-plain-list: Broken: parameters in nested lists",
    "layers-in-a-plain-list: Broken: branches in a dict are trained, but `eval()` does not reach their batch norm",
    "gradients-never-cleared: Broken: tensors that the script updates itself",
    "tensor-not-a-buffer: Broken: parameters that are scaled or reshaped after they were made",
    "optimizer-recreated-every-step: Broken: in a function that trains one batch, with momentum",
    "optimizer-state-not-restored: Broken: the checkpoint does not contain it",
    "optimizer-state-not-restored: Broken: with a new learning rate, in a method, the counter read",
    "plateau-wrong-mode-or-metric: Broken: a value that is never recomputed",
    "plateau-wrong-mode-or-metric: Broken: the epoch number, which other schedulers used to take",
    "set-epoch-not-called: Broken: the sampler is created again in each epoch, with the same seed",
    "not-shuffled: Broken: a stream that yields one file after the other",
    "same-order-every-epoch: Broken: the seed is set in every epoch",
    "same-order-every-epoch: Broken: a function that seeds the loader's own generator, called in every epoch",
    "scheduler-never-stepped: Broken: only one of two schedulers is stepped",
    "shapes-broadcast-in-loss: Broken: a custom loss",
    "unsafe-load: Broken: a file with objects, through an open file and a function",
    "whole-model-pickled: Broken: loaded into a different variable",
    "ddp-bypassed: Broken: a new head after wrapping",
    "ddp-bypassed: Broken: layers unfrozen after wrapping",
    "ddp-bypassed: Broken: the variable of the plain model is still used",
}
"""Their scripts that are too complex for a mechanical change: the finding must not offer a diff."""


def own(example: Example, result: Checked) -> list[Finding]:
    return [finding for finding in result.findings if finding.name == example.rule]


def strange(text: str) -> str:
    """The same script with tabs, CRLF line ends, and no newline at the end."""
    tabbed = re.sub(r"^(?: {4})+", lambda spaces: "\t" * (len(spaces[0]) // 4), text, flags=re.MULTILINE)
    return tabbed.rstrip("\n").replace("\n", "\r\n")


@pytest.mark.parametrize("example", BROKEN, ids=lambda e: e.name)
def test_each_diff_fixes_the_script(example: Example, tmp_path: Path) -> None:
    before = checked(example)
    for finding in own(example, before):
        if finding.diff:
            assert example.rule in WITH_DIFF
            assert_fixed(
                before, apply(tmp_path, example.text, finding.diff, ranks=example.ranks), example.rule, finding.diff
            )


@pytest.mark.parametrize("example", [e for e in BROKEN if e.rule in WITH_DIFF], ids=lambda e: e.name)
def test_the_patch_of_all_findings_fixes_a_script_with_tabs_and_crlf(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    linecache.clearcache()  # train.py of a different test
    text = strange(example.text)
    before = check_script(tmp_path, text, ranks=example.ranks)
    assert {f.place.line for f in own(example, before) if f.place} == {
        line for name, line in example.expected() if name == example.rule
    }
    verdict = replace(before.verdict, findings=tuple(own(example, before)))
    diff = render(verdict)
    assert bool(diff) == (f"{example.rule}: {example.title}" not in NO_DIFF)
    if diff:
        assert_fixed(
            before, apply(tmp_path, text, diff, ranks=example.ranks), example.rule, diff, gone=len(verdict.findings)
        )
        fixed = (tmp_path / "train.py").read_bytes()
        assert fixed.count(b"\n") == fixed.count(b"\r\n")
        assert not fixed.endswith(b"\n")


@pytest.mark.parametrize("rule", WITH_DIFF)
def test_a_rule_writes_a_diff_wherever_it_is_safe(rule: str) -> None:
    offered = {f"{e.rule}: {e.title}": all(f.diff for f in own(e, checked(e))) for e in BROKEN if e.rule == rule}
    assert any(offered.values())
    assert {name for name, written in offered.items() if not written} == {
        name for name in NO_DIFF if name.startswith(f"{rule}:")
    }
