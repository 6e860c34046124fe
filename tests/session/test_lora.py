"""The LoRA recipe of docs/training/hugging-face.md, from local weights: killed, resumed, loaded, saved and exported."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import trueloop
from tests.conftest import in_child
from tests.docs_blocks import python_blocks
from tests.session.killed import assert_survives
from tests.session.test_changes import trueloop as typed
from trueloop.checkpoint.contents import read_contents
from trueloop.checkpoint.store import Folder
from trueloop.engine.call_model import inputs_by_name

pytestmark = pytest.mark.filterwarnings("ignore")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers")
    peft = pytest.importorskip("peft")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    base, lora = python_blocks("training/hugging-face.md")[:2]
    (tmp_path / "gpt2.py").write_text(base, encoding="utf-8")
    lora = lora.replace("epochs=3", 'epochs=1, log_every=1, save_every=3, keep=2, trackers=(), device="cpu"')
    (tmp_path / "lora.py").write_text(lora, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(base, "hugging-face.md", "exec"), names)
    torch.manual_seed(0)
    names["model"]().save_pretrained(tmp_path / "my-gpt2")
    return tmp_path


def _weights(run: Path) -> dict[str, torch.Tensor]:
    store = Folder(run / "checkpoints")
    kept = read_contents(store, store.names()[-1]).weights["model"]
    return {name.replace("base_model.model.", "").replace(".base_layer", ""): each for name, each in kept.items()}


def test_it_is_trained_killed_resumed_loaded_and_exported(folder: Path) -> None:
    assert_survives(folder, "lora.py", (5, 11))
    base = transformers.GPT2LMHeadModel.from_pretrained(folder / "my-gpt2")
    run = folder / "runs" / "killed"
    kept = _weights(run)
    before = {name: each for name, each in base.state_dict().items() if name in kept}
    assert len(before) > 10
    for name, value in before.items():
        assert torch.equal(kept[name], value), name
    assert any(float(each.abs().max()) > 0 for name, each in kept.items() if "lora_B" in name)
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert report["findings"] == []
    in_child(lambda: _use(folder))
    code, printed = typed(folder, "export", "runs/killed", "--to", "safetensors")
    assert code == 0, printed


def _use(folder: Path) -> None:
    """As the page says: the adapter alone, put onto the base again, gives the same answers."""
    os.chdir(folder)
    loaded = trueloop.load("killed", device="cpu")
    model: Any = loaded.model
    model.save_pretrained("adapter")
    base = transformers.GPT2LMHeadModel.from_pretrained("my-gpt2")
    again = peft.PeftModel.from_pretrained(base, "adapter").eval()
    valid = loaded.splits.valid
    assert valid is not None
    inputs = valid.fetch(torch.arange(3)).inputs
    with torch.no_grad():
        assert torch.equal(again(**inputs).logits, model(**inputs).logits)
    assert loaded.evaluate("valid")["loss"] > 0


def test_the_start_of_the_run_names_what_is_trained_and_what_is_frozen(folder: Path) -> None:
    code, printed = typed(folder, "train", "lora.py", "--name", "a", "--set", "steps=2", "--set", "epochs=none")
    assert code == 0, printed
    assert "model: 512 parameters are trained, " in printed


def test_a_peft_model_without_a_task_passes_its_labels_on() -> None:
    config = transformers.BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    model = transformers.BertForSequenceClassification(config)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["query", "q_proj"]))
    inputs = {"input_ids": torch.zeros(1, 3, dtype=torch.long), "labels": torch.zeros(1, dtype=torch.long)}
    assert set(inputs_by_name(adapted, inputs) or {}) == {"input_ids", "labels"}
