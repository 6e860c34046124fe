"""The rules, always on: planted bugs are found end to end, healthy recipes are left in peace, the record outlives the
run."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from trueloop.doctor.recheck import check_recorded_run
from trueloop.errors import UnknownRule
from trueloop.event import Backward, Event, ModelSeen, NotFinite, Place, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.hook import Ending, Hook, Start
from trueloop.recipe.recipe import Recipe
from trueloop.recipes.catalogue import find_recipe
from trueloop.rules.catalogue import ALWAYS_ON, all_rules
from trueloop.run import event_from, read_events
from trueloop.session import train as session
from trueloop.session.live_checks import LiveChecks, rules_for_runs
from trueloop.session.train import Trained
from trueloop.usercode.settings import Settings

# Signals are part of these tests, not their end.
train = partial(session.train, hand_on_signals=False)
resume = partial(session.resume, hand_on_signals=False)

HEAD = """
import torch
from torch import nn
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import Recipe


def read(request):
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(96, 8, generator=draws)
    targets = (inputs[:, 0] > 0).long() + 2 * (inputs[:, 1] > 0).long()
    return Splits(train=Tensors(inputs, targets), facts=Facts(classes=("a", "b", "c", "d")))


def recipe():
    return Recipe(
        name="planted", model=Net, data=read, steps=30, batch=24, lr=0.05, optimizer="sgd", log_every=5, trackers=()
    )


"""

HEALTHY = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.body(x))
"""

UNUSED = HEALTHY.replace("        self.head =", "        self.extra = nn.Linear(16, 16)\n        self.head =")
DETACHED = HEALTHY.replace("self.body(x)", "self.body(x).detach()")
SOFTMAX = HEALTHY.replace("return self.head(self.body(x))", "return self.head(self.body(x)).softmax(1)")
SOFTMAX_LAYER = HEALTHY.replace(
    "self.head = nn.Linear(16, 4)", "self.head = nn.Sequential(nn.Linear(16, 4), nn.Softmax(dim=1))"
)
ZEROS = HEALTHY.replace(
    "self.head = nn.Linear(16, 4)",
    "self.head = nn.Linear(16, 4)\n        for weight in self.parameters():\n            nn.init.constant_(weight, "
    "0.0)",
)
CONSTANT = ZEROS.replace("constant_(weight, 0.0)", "constant_(weight, 0.5)").replace(", nn.Dropout(0.1)", "")
SIGMOIDS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [layer for _ in range(12) for layer in (nn.Linear(8, 8), nn.Sigmoid())]
        self.layers = nn.Sequential(*layers, nn.Linear(8, 4))

    def forward(self, x):
        return self.layers(x)
"""
LOGARITHM = HEALTHY.replace("return self.head(self.body(x))", "return self.head(torch.log(self.body(x) - 1))")


class Notes(Hook):
    """What a person is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def noted(self, sentence: str) -> None:
        self.notes.append(sentence)


Planted = Callable[..., Recipe]
Run = Callable[..., Trained]


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planted]:
    """A recipe file of the user's, with this model in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(model: str, **changes: Any) -> Recipe:
        (tmp_path / "planted.py").write_text(HEAD + model, encoding="utf-8")
        return replace(find_recipe(str(tmp_path / "planted.py"), {}), **changes)

    yield write
    sys.modules.pop("planted", None)


@pytest.fixture
def run(planted: Planted, tmp_path: Path) -> Run:
    def start(model: str, hooks: tuple[Hook, ...] = (), **changes: Any) -> Trained:
        return train(planted(model, **changes), runs=tmp_path / "runs", hooks=hooks)

    return start


def names(done: Trained) -> list[str]:
    return [finding.name for finding in done.findings]


def only(done: Trained, name: str) -> Finding:
    (found,) = [finding for finding in done.findings if finding.name == name]
    return found


def source_line(done: Trained, finding: Finding) -> str:
    assert finding.place is not None
    assert finding.place.path == str(done.folder.parent.parent / "planted.py")
    return finding.source.strip()


# -- healthy --


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="sgd"),
        pytest.param({"optimizer": "adamw", "lr": 1e-2, "clip": 1.0, "ema": 0.9}, id="adamw"),
        pytest.param({"accumulate": 3, "precision": "bf16"}, id="accumulated"),
        pytest.param({"steps": 3}, id="three steps"),
        pytest.param({"log_every": 1, "statistics_every": 1}, id="every step"),
    ],
)
def test_a_healthy_recipe_gets_no_finding(run: Run, changes: dict[str, Any]) -> None:
    notes = Notes()
    done = run(HEALTHY, (notes,), **changes)
    assert done.findings == ()
    assert not any("GRD" in note or "MDL" in note or "LOS" in note for note in notes.notes)


@pytest.mark.long
def test_the_digits_get_no_finding_in_their_whole_run(tmp_path: Path) -> None:
    done = train(find_recipe("digits", {}), runs=tmp_path, hooks=())
    assert done.findings == ()
    assert check_recorded_run(done.folder, all_rules(), Settings()).findings == ()


def test_digits_get_no_finding_in_their_first_steps(tmp_path: Path) -> None:
    done = train(replace(find_recipe("digits", {}), steps=25, epochs=None, trackers=()), runs=tmp_path, hooks=())
    assert done.findings == ()


def test_a_frozen_layer_is_the_users_wish(run: Run) -> None:
    frozen = HEALTHY.replace("        self.head =", "        self.body.requires_grad_(False)\n        self.head =")
    assert run(frozen).findings == ()


def test_experts_that_wait_for_their_turn_are_left_alone(run: Run) -> None:
    experts = HEALTHY.replace(
        "self.head = nn.Linear(16, 4)", "self.heads = nn.ModuleList([nn.Linear(16, 4) for _ in range(3)])"
    )
    assert run(experts.replace("self.head(", "self.heads[0](")).findings == ()


# -- planted --


def test_a_layer_that_the_forward_never_uses_is_named_at_its_line(run: Run) -> None:
    done = run(UNUSED)
    found = only(done, "unused-parameters")
    assert "extra.weight, extra.bias of Net (272 values)" in found.message
    assert "the forward never used the layer" in found.message
    assert source_line(done, found) == "self.extra = nn.Linear(16, 16)"
    assert found.severity is Severity.WARNING


def test_a_layer_frozen_by_a_detach_is_an_error_at_the_detach(run: Run) -> None:
    done = run(DETACHED)
    found = only(done, "loss-detached-from-parameters")
    assert source_line(done, found) == "return self.head(self.body(x).detach())"
    assert found.severity is Severity.ERROR
    assert "unused-parameters" not in names(done)


def test_vanishing_gradients_are_found_in_a_deep_net_of_sigmoids(run: Run) -> None:
    done = run(SIGMOIDS, steps=120)
    found = only(done, "vanishing-gradients")
    assert found.place is not None
    assert source_line(done, found) == "class Net(nn.Module):"
    assert found.evidence["first"] == "layers.0.weight"


def test_a_learning_rate_that_lets_the_loss_diverge_is_found(run: Run) -> None:
    done = run(HEALTHY.replace("nn.ReLU(), nn.Dropout(0.1)", "nn.Identity()"), lr=300.0, on_nonfinite="stop")
    assert names(done) == ["loss-diverges"]
    assert "(learning rate 300)" in done.findings[0].message
    assert source_line(done, done.findings[0]) == "class Net(nn.Module):"


def test_a_layer_that_gives_nan_is_named(run: Run) -> None:
    done = run(LOGARITHM)
    assert done.ending.reason == "nonfinite"
    assert only(done, "nan-or-inf").severity is Severity.ERROR


def test_nan_that_is_skipped_as_asked_is_a_warning(run: Run, planted: Planted) -> None:
    recipe = planted(HEALTHY)

    def spoilt(request: Any) -> Any:
        splits = recipe.data(request)
        splits.train.inputs[5] = float("nan")
        return splits

    done = run(HEALTHY, data=spoilt, on_nonfinite="skip", epochs=2, steps=None)
    assert done.ending.reason == "finished"
    assert only(done, "nan-or-inf").severity is Severity.WARNING


def test_a_softmax_before_our_cross_entropy_is_found(run: Run) -> None:
    found = only(run(SOFTMAX), "softmax-before-cross-entropy")
    assert found.severity is Severity.ERROR
    assert found.evidence["produced_by"] == ["SoftmaxBackward0"]


def test_a_softmax_layer_is_found_at_its_line_with_a_patch(run: Run) -> None:
    done = run(SOFTMAX_LAYER)
    found = only(done, "softmax-before-cross-entropy")
    assert source_line(done, found) == "self.head = nn.Sequential(nn.Linear(16, 4), nn.Softmax(dim=1))"
    assert "+        self.head = nn.Sequential(nn.Linear(16, 4))" in found.diff


def test_a_sigmoid_before_our_binary_loss_is_found(run: Run, planted: Planted) -> None:
    model = HEALTHY.replace("nn.Linear(16, 4)", "nn.Linear(16, 1)").replace(
        "self.head(self.body(x))", "self.head(self.body(x)).sigmoid()"
    )
    recipe = planted(model)

    def yes_or_no(request: Any) -> Any:
        splits = recipe.data(request)
        splits.train.targets = splits.train.targets % 2
        return splits

    found = only(run(model, data=yes_or_no, task="binary"), "sigmoid-before-bce-with-logits")
    assert found.severity is Severity.ERROR


@pytest.mark.parametrize(("model", "parameter"), [(CONSTANT, "body.0.weight"), (ZEROS, "head.weight")])
def test_units_that_start_equal_are_found(run: Run, model: str, parameter: str) -> None:
    found = [finding for finding in run(model).findings if finding.name == "symmetric-initialization"]
    assert found
    assert any(finding.evidence["parameter"] in (parameter, "body.0.weight") for finding in found)


def test_parameters_that_the_users_optimizer_leaves_out_are_found(run: Run) -> None:
    import torch

    def only_some(groups: Any, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD([{"params": groups[0]["params"][:3]}], lr=lr)

    done = run(HEALTHY, optimizer=only_some)
    found = only(done, "parameters-not-in-optimizer")
    assert "head.bias" in found.message
    assert source_line(done, found) == "class Net(nn.Module):"


def test_the_users_own_loss_is_judged_where_it_is_torchs(run: Run) -> None:
    import torch

    done = run(SOFTMAX, loss=torch.nn.CrossEntropyLoss(reduction="none"))
    assert "softmax-before-cross-entropy" in names(done)
    done = run(
        SOFTMAX, loss=lambda output, targets: torch.nn.functional.nll_loss(output.log(), targets, reduction="none")
    )
    assert done.findings == ()


# -- said --


def test_a_finding_is_said_at_once_and_a_symptom_at_the_end(run: Run) -> None:
    class Order(Notes):
        def logged(self, row: Any) -> None:
            self.notes.append(f"row {row.step}")

        def ended(self, ending: Ending) -> None:
            self.notes.append("ended")

    notes = Order()
    run(SOFTMAX.replace("        self.head =", "        self.extra = nn.Linear(16, 16)\n        self.head ="), (notes,))
    said = [note.split(" (")[0] for note in notes.notes]
    assert said.index("error LOS101 softmax-before-cross-entropy") < said.index("row 5")
    assert said.index("row 30") < said.index("warning MDL102 unused-parameters") < said.index("ended")
    assert len([note for note in said if "LOS101" in note]) == 1


# -- allowed --


def test_an_allow_comment_at_the_line_silences_it(run: Run) -> None:
    notes = Notes()
    allowed = UNUSED.replace("nn.Linear(16, 16)", "nn.Linear(16, 16)  # trueloop: allow[unused-parameters]")
    done = run(allowed, (notes,))
    assert done.findings == ()
    assert not any("MDL102" in note for note in notes.notes)
    assert json.loads((done.folder / "report.json").read_text())["watched"]["allowed"] == 1


def test_what_has_no_line_of_its_own_is_allowed_where_the_model_is_written(run: Run) -> None:
    done = run(SOFTMAX.replace("class Net", "# trueloop: allow[LOS101]\nclass Net"))
    assert done.findings == ()
    assert check_recorded_run(done.folder, all_rules(), Settings()).findings == ()


def test_the_settings_of_the_project_hold(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.trueloop]\nignore = ["LOS101"]\nseverity = { MDL102 = "error" }\n')
    assert run(SOFTMAX).findings == ()
    assert only(run(UNUSED), "unused-parameters").severity is Severity.ERROR


def test_a_misspelt_rule_in_the_settings_is_refused_before_anything_is_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.trueloop]\nignore = ["los-diverges"]\n')
    with pytest.raises(UnknownRule, match="loss-diverges"):
        run(HEALTHY)
    assert not (tmp_path / "runs").exists()


def test_every_rule_that_is_always_on_exists() -> None:
    assert {rule.name for rule in rules_for_runs(Settings())} == set(ALWAYS_ON)
    assert [rule.name for rule in rules_for_runs(Settings(select=("LOS109",)))] == ["loss-diverges"]


# -- recorded --


def test_a_run_can_be_judged_again_from_its_folder_with_the_same_findings(run: Run) -> None:
    done = run(UNUSED)
    again = check_recorded_run(done.folder, all_rules(), Settings())
    assert [(f.code, f.place, f.message) for f in again.findings] == [
        (f.code, f.place, f.message) for f in done.findings
    ]
    assert again.outcome.reason == "finished"
    assert again.watched.sentence() == "30 steps of Net and 8 passes over loaders"
    assert again.watched.rules + len(again.not_applicable) == len(ALWAYS_ON)


def test_the_report_in_the_folder_is_what_was_found(run: Run) -> None:
    done = run(SOFTMAX)
    report = json.loads((done.folder / "report.json").read_text(encoding="utf-8"))
    assert [finding["code"] for finding in report["findings"]] == ["LOS101"]
    assert report["script"]["reason"] == "finished"


def stopped_after(steps: int) -> Hook:
    import os
    import signal

    class Stopping(Hook):
        def logged(self, row: Any) -> None:
            if row.step == steps:
                os.kill(os.getpid(), signal.SIGTERM)

    return Stopping()


def test_a_resumed_run_is_judged_as_one_run(run: Run, planted: Planted) -> None:
    done = run(UNUSED, (stopped_after(15),), steps=30)
    assert done.ending.reason == "signal"
    events = list(read_events(done.folder))
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason == "interrupted"
    notes = Notes()
    resumed = resume(planted(UNUSED, steps=30), done.folder, hooks=[notes])
    assert resumed.ending.reason == "finished"
    assert names(resumed) == ["unused-parameters"]
    events = list(read_events(done.folder))
    assert [type(event) for event in events].count(RunEnded) == 1
    steps = [event.step for event in events if isinstance(event, Backward)]
    assert steps == sorted(set(steps))
    assert steps[:15] == list(range(15))
    assert check_recorded_run(done.folder, all_rules(), Settings()).watched.steps == 30


# -- the hook alone --


def start(step: int = 0) -> Start:
    return Start("x", "Net", 1, "cpu", 1, 10, 10, step, ())


def backward(step: int, loss: float = 1.0) -> Event:
    plain = {"event": "Backward", "step": step, "place": None, "call": step, "loss": loss, "root": "", "loss_text": ""}
    no = dict.fromkeys(("mean", "divided", "scaled_by_amp", "inside_step", "retained"), False)
    none = dict.fromkeys(("nodes", "spanned_steps", "reached", "broadcast", "broadcast_place"))
    return event_from({**plain, **no, **none, "optimized": 1})


def nan(step: int) -> NotFinite:
    return NotFinite(step, None, "loss", "fc", "Linear", None, "nan", "layer", (0.1,))


def test_events_after_the_checkpoint_are_dropped_and_those_before_it_judged_once_more(tmp_path: Path) -> None:
    first = LiveChecks(tmp_path, lambda _: None)
    first.started(start())
    first.event_emitted(ModelSeen(0, None, 0, "Net", 1, 0, 0, False, Place("net.py", 3)))
    for step in range(6):
        first.event_emitted(backward(step))
    first.event_emitted(nan(2))
    first.ended(Ending("failed", 6))
    said: list[str] = []
    second = LiveChecks(tmp_path, said.append)
    second.started(start(4))
    second.event_emitted(backward(4))
    second.ended(Ending("finished", 5))
    steps = [event.step for event in read_events(tmp_path)]
    assert steps == [0, 0, 1, 2, 3, 2, 4, 5]
    assert [finding.name for finding in second.findings] == ["nan-or-inf"]
    assert second.findings[0].place == Place("net.py", 3)


def test_a_new_run_begins_a_new_record(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("left over\n")
    judging = LiveChecks(tmp_path, lambda _: None)
    judging.started(start())
    judging.ended(Ending("finished", 0))
    assert [type(event) for event in read_events(tmp_path)] == [RunEnded]


def test_a_damaged_record_does_not_stop_a_resume(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("{}\n{}\n")
    said: list[str] = []
    judging = LiveChecks(tmp_path, said.append)
    judging.started(start(4))
    judging.ended(Ending("finished", 5))
    assert said[0].endswith("The rules check this run from step 4 on.")


def test_a_line_is_whole_on_disk_as_soon_as_it_is_told(tmp_path: Path) -> None:
    judging = LiveChecks(tmp_path, lambda _: None)
    judging.started(start())
    judging.event_emitted(backward(0))
    assert (tmp_path / "events.jsonl").read_text().count("\n") == 1
    judging.ended(Ending("finished", 1))


class Full:
    """A file on a full disk."""

    def write(self, line: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_ends_the_record_with_a_word_and_the_judging_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    judging = LiveChecks(tmp_path, said.append)
    judging.started(start())
    cast(Any, judging._record._file).close()
    judging._record._file = cast(Any, Full())
    judging.event_emitted(backward(0))
    judging.event_emitted(nan(1))
    judging.ended(Ending("nonfinite", 1))
    assert [
        sentence
        for sentence in said
        if "Events are no longer written" in sentence and "(No space left on device)" in sentence
    ] == said[:1]
    assert [finding.name for finding in judging.findings] == ["nan-or-inf"]
    assert judging.verdict is not None
    assert judging.verdict.notes == tuple(said[:1])


def test_a_folder_that_cannot_be_written_is_a_word_not_an_end(tmp_path: Path) -> None:
    said: list[str] = []
    judging = LiveChecks(tmp_path / "gone", said.append)
    judging.started(start())
    judging.event_emitted(nan(0))
    judging.ended(Ending("finished", 1))
    assert said[0].startswith("Events are no longer written to")
    assert "events.jsonl" in said[0]
    assert "report.json could not be written" in said[-1]


def test_an_ending_before_any_start_is_quiet(tmp_path: Path) -> None:
    said: list[str] = []
    judging = LiveChecks(tmp_path, said.append)
    judging.ended(Ending("failed", 0))
    judging.ended(Ending("failed", 0))
    assert said == []
    assert not (tmp_path / "events.jsonl").exists()


def test_a_rule_that_breaks_is_told_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trueloop.rules.loss.loss_diverges import LossDiverges

    def broken(self: LossDiverges, event: Backward) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(LossDiverges, "on_backward", broken)
    said: list[str] = []
    judging = LiveChecks(tmp_path, said.append)
    judging.started(start())
    judging.event_emitted(backward(0))
    judging.event_emitted(nan(1))
    judging.ended(Ending("finished", 2))
    assert [finding.name for finding in judging.findings] == ["nan-or-inf"]
    assert said[-1].startswith("trueloop itself failed: rule LOS109")
