"""Each section on files made by hand: what is said of them, on both sides of every limit, and what is missing without
them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.verbs import reseal
from tests.readiness.evidence import check_statements
from tests.readiness.made import ABOUT, FACTS, REPORT, ROWS, changed, line, made, readiness
from trueloop.readiness.record import Absent, Record
from trueloop.results.proof import Proof


def told(folder: Path, **files: Any) -> Any:
    read = readiness(made(folder, **files))
    check_statements(read, folder / "runs" / "mine")
    return read


def with_twin(folder: Path) -> None:
    """A run beside it, earlier, with another seed: then nothing is missing."""
    recipe = {**ABOUT["recipe"], "seed": 1}
    made(folder, "before", run={**ABOUT, "name": "before", "started": 900.0, "recipe": recipe, "best": 0.89})


def test_where_all_is_well_it_is_ready(tmp_path: Path) -> None:
    with_twin(tmp_path)
    read = told(tmp_path)
    assert read.verdict == "ready", read.reasons()
    assert {each.section for each in read.statements} >= {
        "model",
        "data",
        "contract",
        "validation",
        "checkpoints",
        "larger data",
    }


CASES: list[tuple[str, dict[str, Any], str, str]] = [
    # model
    ("facts.json", {"model__trained": 0, "optimizer__held": 0}, "0 of them trainable", "bad"),
    ("facts.json", {"optimizer__held": 90}, "holds 90 of 100 trainable parameters", "bad"),
    ("facts.json", {"optimizer__held": 100}, "holds all 100 trainable parameters", "good"),
    ("facts.json", {"loss": {"name": "focal", "own": True, "task": "multiclass"}}, "a custom loss: focal", "note"),
    ("run.json", {"machine__cuda": "H200"}, "the H200 of this machine is not used", "risk"),
    # data
    ("facts.json", {"leakage__train_valid__repeated": 1}, "1 of 200 validation samples", "risk"),
    ("facts.json", {"leakage__train_valid__repeated": 2}, "2 of 200 validation samples", "risk"),
    ("facts.json", {"leakage__train_valid__repeated": 3}, "3 of 200 validation samples", "bad"),
    ("facts.json", {"data__train": 90_000}, "not all were compared: there are 200 validation and 90,000 training", "good"),  # noqa: E501
    ("facts.json", {"inputs__not_finite": 2}, "2 of 64 values in the first batch are NaN or Inf", "bad"),
    ("facts.json", {"inputs__mean": 127.0, "inputs__std": 60.0}, "mean 127, standard deviation 60", "risk"),
    ("facts.json", {"inputs__mean": -10.0}, "mean -10", "good"),
    ("facts.json", {"inputs__kind": "tokens"}, "integers from -2 to 3", "note"),
    ("facts.json", {"classes__train__0": 50}, "class 1 has the most (500) and class 0 the fewest (50)", "good"),
    ("facts.json", {"classes__train__0": 49}, "class 1 has the most (500) and class 0 the fewest (49)", "risk"),
    ("facts.json", {"data__where": "loader", "data__workers": 3}, "from a loader; workers: 3", "note"),
    # validation
    ("facts.json", {"validation__in_train_mode": 4}, "4 of 4 modules are in train mode", "bad"),
    ("facts.json", {"validation__graphs": True}, "graphs are recorded: True", "bad"),
    ("run.json", {"best": 0.6}, "not better than a constant", "bad"),
    ("run.json", {"best": 0.65}, "at most 0.069, which may be chance", "risk"),
    ("run.json", {"best": 0.68}, "accuracy 0.68, and 0.6 of a constant prediction", "good"),
    ("run.json", {"best": 0.6, "higher_is_better": False, "metric": "loss"}, "a constant prediction: not recorded", "missing"),  # noqa: E501
    ("run.json", {"collapse": {"sentence": "It fell.", "recovered_at": None}}, "it collapsed: It fell.", "bad"),
    ("run.json", {"changes": [{"step": 5, "recipe": {"lr": [0.1, 0.2]}, "code": {"mine.loss": "diff"}}]}, "changed at step 5 and accepted: lr from 0.1 to 0.2; 1 functions, classes or constants", "risk"),  # noqa: E501
    # the end
    ("run.json", {"status": "early-stopped"}, "the run ended at step 20 of 20: early-stopped", "good"),
    ("run.json", {"status": "signal", "message": "Stopped by signal 15."}, "signal; Stopped by signal 15.", "risk"),
    ("run.json", {"status": "failed", "message": "Boom."}, "failed; Boom.", "bad"),
    ("run.json", {"status": "nonfinite"}, "20 of 20: nonfinite", "bad"),
    ("run.json", {"step": 30}, "newest checkpoint is from step 20", "risk"),
    ("run.json", {"recipe__on_nonfinite": "skip"}, "a NaN or Inf gradient is skipped and reported", "good"),
    # performance and more data
    ("metrics.jsonl", {"data_wait": 0.3}, "not data-bound: it waits for data 30.0% of the time", "good"),
    ("metrics.jsonl", {"data_wait": 0.31}, "data-bound: it waits for data 31.0% of the time", "risk"),
    ("facts.json", {"data__bytes": 320_000_000}, "10 times the training data would be 3,200.0 MB in memory", "good"),
    ("facts.json", {"data__bytes": 330_000_000}, "would be 3,300.0 MB in memory, of 8,000 MB; more than 40%", "risk"),
    ("metrics.jsonl", {"samples_per_second": 4.5}, "a kill would lose up to 1,777.8 s", "good"),
    ("metrics.jsonl", {"samples_per_second": 4.4}, "a kill would lose up to 1,818.2 s", "risk"),
    ("run.json", {"recipe__save_every": 5}, "a checkpoint every 5 steps: a kill would lose up to 1.0 s", "good"),
    ("report.json", {"watched__failures": ["Traceback"]}, "1 rules failed with an error of their own", "risk"),
    ("report.json", {"watched__allowed": 2}, "2 findings are allowed", "note"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "values", "text", "status"), CASES, ids=[f"{text[:50]}" for _, _, text, _ in CASES])
def test_what_is_said(file: str, values: dict[str, Any], text: str, status: str, tmp_path: Path) -> None:
    with_twin(tmp_path)
    read = told(tmp_path, **{Path(file).stem: changed(file, **values)})
    assert line(read, text).status == status
    assert status != "bad" or read.verdict == "not ready"
    assert status in ("good", "note") or read.verdict != "ready"


@pytest.mark.parametrize(
    ("severity", "status", "verdict"),
    [("error", "bad", "not ready"), ("warning", "risk", "ready with risks"), ("advice", "note", "ready")],
)
def test_a_finding_counts_by_its_severity(severity: str, status: str, verdict: str, tmp_path: Path) -> None:
    with_twin(tmp_path)
    found = {"code": "LOS104", "name": "loss-diverges", "severity": severity, "message": "The loss rose 40 times."}
    read = told(tmp_path, report=changed("report.json", findings=[found]))
    said = line(read, "LOS104 loss-diverges: The loss rose 40 times.")
    assert (said.status, said.command, read.verdict) == (status, "trueloop explain LOS104", verdict)


def test_gradients_that_leap_are_a_risk_where_nobody_clips(tmp_path: Path) -> None:
    with_twin(tmp_path)
    about = changed("run.json", recipe__clip=None)
    rows = copy.deepcopy(ROWS)
    rows[2]["gradient_norm"] = 10.0
    assert line(told(tmp_path, run=about, metrics=rows), "their norm has median 0.5 and maximum 10,").status == "good"
    rows[2]["gradient_norm"] = 10.1
    assert line(told(tmp_path / "more", run=about, metrics=rows), "maximum 10.1, over 5 rows").status == "risk"
    assert line(told(tmp_path / "few", run=about, metrics=rows[1:]), "4 rows are too few").status == "missing"


def test_steps_that_were_skipped_are_counted(tmp_path: Path) -> None:
    rows = copy.deepcopy(ROWS)
    rows[1]["skipped"], rows[2]["skipped"] = 1.0, 3.0
    assert line(told(tmp_path, metrics=rows), "3 steps were skipped").status == "risk"


# -- proofs --


def test_a_claim_that_fails_is_bad_and_one_that_could_not_be_tried_is_missing(tmp_path: Path) -> None:
    proofs = [
        Proof("overfit-one-batch", "fails", "the loss stays at 2.3", "it falls"),
        Proof("batch-independence", "unproved", "there is no GPU with 80 GB", "alone"),
        Proof("resume-is-exact", "fails", "weights differ from step 7 on", "the same"),
        Proof("cpu-and-gpu-agree", "unproved", "there is no GPU here", "alike"),
        Proof("evaluation-repeats", "unproved", "there are no validation data", "the same"),
    ]
    read = told(tmp_path, proofs=proofs)
    assert line(read, "overfit-one-batch fails: the loss stays at 2.3").status == "bad"
    assert line(read, "batch-independence: could not be tested here; there is no GPU with 80 GB").status == "missing"
    assert line(read, "a resumed run differs: weights differ from step 7 on").status == "bad"
    assert line(read, "evaluation-repeats: could not be tested here; there are no validation data").status == "missing"
    untried = line(read, "gradients-reach-every-layer: not tested")
    assert untried.status == "missing"
    assert untried.command.endswith("mine gradients-reach-every-layer")
    assert line(read, "cpu-and-gpu-agree: not applicable to this run, it runs on the CPU").status == "note"
    assert line(read, "eager-and-compiled-agree: not applicable to this run").status == "note"


def test_without_any_proof_one_line_names_all_that_was_not_tried(tmp_path: Path) -> None:
    read = told(tmp_path, proofs=None)
    said = line(read, "not tested: overfit-one-batch, ")
    assert said.status == "missing"
    assert said.command == f"trueloop probe {tmp_path / 'runs' / 'mine'}"
    assert "eager-and-compiled-agree" not in said.text


def test_what_the_run_does_is_asked_for(tmp_path: Path) -> None:
    facts = changed(
        "facts.json", device__compile="default", device__precision="bf16", data__workers=2, device__processes=2
    )
    said = line(told(tmp_path, proofs=None, facts=facts), "not tested: ").text
    assert all(claim in said for claim in ("eager-and-compiled-agree", "precision-agrees", "workers-draw-differently"))


# -- other runs --


def test_the_last_good_run_is_the_best_one_that_had_finished_before(tmp_path: Path) -> None:
    for name, started, best, status in (
        ("old", 900.0, 0.87, "finished"),
        ("better", 950.0, 0.91, "early-stopped"),
        ("killed", 960.0, 0.99, "failed"),
        ("later", 1100.0, 0.99, "finished"),
    ):
        made(tmp_path, name, run={**ABOUT, "name": name, "started": started, "best": best, "status": status})
    (tmp_path / "runs" / "damaged").mkdir()
    (tmp_path / "runs" / "damaged" / "run.json").write_text("{", encoding="utf-8")
    read = told(tmp_path)
    assert line(read, "accuracy 0.9, and 0.91 of the last good run, better").status == "good"


@pytest.mark.parametrize(("best", "status"), [(0.93, "good"), (0.94, "bad")])
def test_worse_than_chance_allows_is_bad(best: float, status: str, tmp_path: Path) -> None:
    made(tmp_path, "before", run={**ABOUT, "name": "before", "started": 900.0, "best": best})
    said = line(told(tmp_path), "of the last good run, before")
    assert said.status == status
    assert ("compare" in said.command) == (best > 0.9)


def test_worse_in_a_metric_of_unknown_noise_is_a_risk(tmp_path: Path) -> None:
    about = {**ABOUT, "metric": "loss", "higher_is_better": False, "best": 0.3}
    made(tmp_path, "before", run={**about, "name": "before", "started": 900.0, "best": 0.29})
    assert line(told(tmp_path, run=about), "loss 0.3, and 0.29 of the last good run, before").status == "risk"


def test_the_baseline_that_the_run_was_held_against_comes_first(tmp_path: Path) -> None:
    made(tmp_path, "before", run={**ABOUT, "name": "before", "started": 900.0, "best": 0.99})
    baseline = {"run": "/elsewhere/good-3", "metric": "accuracy", "value": 0.93, "noise": 0.05}
    read = told(tmp_path, run={**ABOUT, "baseline": baseline})
    assert line(read, "of the last good run, before").status == "bad"
    alone = told(tmp_path / "alone", run={**ABOUT, "baseline": baseline})
    assert line(alone, "0.93 of the last good run, good-3; equally good runs differ by up to 0.05").status == "good"


def test_other_data_than_before_are_a_risk(tmp_path: Path) -> None:
    made(
        tmp_path,
        "before",
        run={**ABOUT, "name": "before", "started": 900.0},
        facts=changed("facts.json", samples__train__digest="zz"),
    )
    assert line(told(tmp_path), "the training data differ from those of before").status == "risk"


# -- what is not there --


def test_without_facts_nothing_of_them_is_said(tmp_path: Path) -> None:
    read = told(tmp_path, facts=None)
    missing = [each for each in read.of("missing") if "facts.json" in each.text]
    assert len(missing) > 8
    assert all(each.command for each in missing)
    assert not any("facts.json" in link for each in read.statements for link in each.links)
    assert line(read, "`facts.json#model.class` is missing").command == "trueloop train mine.py --set lr=0.1"


def test_why_a_fact_is_missing_is_said(tmp_path: Path) -> None:
    facts = {**FACTS, "leakage": None, "missing": {"leakage": "OSError: the disk is gone"}}
    said = line(told(tmp_path, facts=facts), "duplicates across splits")
    assert said.status == "missing"
    assert "OSError: the disk is gone" in said.text


def test_samples_that_could_not_be_read_are_the_reason(tmp_path: Path) -> None:
    facts = {**FACTS, "leakage": {}, "baseline": None, "missing": {"samples of train": "OSError: tired"}}
    read = told(tmp_path, facts=facts)
    for topic in ("duplicates across splits", "a constant prediction"):
        assert "samples of train: OSError: tired" in line(read, topic).text


def test_a_pace_of_zero_is_no_pace(tmp_path: Path) -> None:
    read = told(tmp_path, metrics=changed("metrics.jsonl", samples_per_second=0.0))
    assert line(read, "time per epoch: cannot be computed").status == "missing"


def test_a_collapse_is_told_without_a_last_good_run_too(tmp_path: Path) -> None:
    collapse = {"sentence": "It fell.", "recovered_at": None}
    assert line(told(tmp_path, run={**ABOUT, "collapse": collapse}), "it collapsed: It fell.").status == "bad"
    recovered = told(tmp_path / "later", run={**ABOUT, "collapse": {**collapse, "recovered_at": 20}})
    assert not any("collapsed" in each.text for each in recovered.statements)


@pytest.mark.parametrize(
    "files",
    [
        {"checkpoints": False},
        {"run": changed("run.json", best=None, best_step=None)},
        {"run": changed("run.json", status="running")},
    ],
    ids=["no checkpoint", "no validation", "no end"],
)
def test_without_the_essential_nothing_is_ready(files: dict[str, Any], tmp_path: Path) -> None:
    with_twin(tmp_path)
    read = told(tmp_path, **files)
    assert not read.of("bad")
    assert read.verdict == "not ready"
    assert read.reasons()[0].essential


def test_a_checkpoint_that_is_cut_short_is_bad(tmp_path: Path) -> None:
    path = made(tmp_path)
    file = path / "checkpoints" / "step-00000020" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    assert line(readiness(path), "the newest checkpoint is incomplete: model.safetensors").status == "bad"
    (file.parent / "manifest.json").write_text("{}", encoding="utf-8")
    assert line(readiness(path), "the manifest of the newest checkpoint is damaged").status == "bad"


@pytest.mark.parametrize("content", [b"", b"weights", b"\x02\0\0\0\0\0\0\0{}x"], ids=["empty", "text", "too long"])
def test_weights_that_are_not_safetensors_are_bad(content: bytes, tmp_path: Path) -> None:
    """Its manifest fits: whoever has written these bytes has sealed them."""
    path = made(tmp_path)
    file = path / "checkpoints" / "step-00000020" / "model.safetensors"
    assert line(readiness(path), "the weights of the newest and the best checkpoint are safetensors").status == "good"
    file.write_bytes(content)
    reseal(file.parent)
    found = line(readiness(path), "step-00000020/model.safetensors is not a safetensors file")
    assert found.status == "bad"
    assert readiness(path).verdict == "not ready"


def test_a_training_state_that_torch_cannot_read_is_bad(tmp_path: Path) -> None:
    path = made(tmp_path)
    (path / "checkpoints" / "step-00000020" / "training.pt").write_bytes(b"text")
    assert line(readiness(path), "training.pt is damaged, or not a torch.save file (BadZipFile)").status == "bad"


def test_a_checkpoint_without_an_optimizer_is_bad(tmp_path: Path) -> None:
    import torch

    path = made(tmp_path)
    torch.save(
        {"state": {}, "random": {}, "precision": {}, "guard": {}},
        path / "checkpoints" / "step-00000020" / "training.pt",
    )
    assert line(readiness(path), "to resume, it lacks the optimizer").status == "bad"


def test_a_row_that_a_kill_has_cut_is_left_out(tmp_path: Path) -> None:
    path = made(tmp_path)
    with (path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind": "train", "st')
    assert Record(path).lines("metrics.jsonl", "train") == [1, 2, 3, 4, 5]


def test_null_is_absent_and_zero_is_not(tmp_path: Path) -> None:
    record = Record(made(tmp_path, facts=changed("facts.json", data__test=None)))
    assert record.figure("facts.json#data.workers").value == 0
    for address in (
        "facts.json#data.test",
        "facts.json#data.no",
        "nothing.json#x",
        "metrics.jsonl:99#loss",
        "metrics.jsonl?train#no",
    ):
        with pytest.raises(Absent):
            record.figure(address)


def test_the_report_is_what_the_rules_left(tmp_path: Path) -> None:
    assert line(told(tmp_path, report=None), "findings of the rules").status == "missing"
    assert REPORT["findings"] == []
