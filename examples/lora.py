"""Even or odd, as in fine_tune.py, with LoRA: a vision transformer keeps its weights, and small adapters learn.

python examples/lora.py                # makes the weights to start from: vit-digits/, as save_pretrained writes them
trueloop train examples/lora.py        # --set weights=a/local/folder --set rank=8
python examples/lora.py runs/lora      # writes the trained adapter: runs/lora/adapter/

Needs `pip install 'trueloop[digits,peft]'`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from peft import LoraConfig, get_peft_model
from transformers import ViTConfig, ViTForImageClassification

import trueloop
from trueloop import Recipe, Splits
from trueloop.recipes import digits

WEIGHTS = "vit-digits"


def read(request: Any, labels: int = 10, samples: int | None = None) -> Splits:
    """The digits as dicts, which the model takes by name; `labels=2` is their parity."""
    splits = digits.read(request)
    parts: dict[str, Any] = {}
    for name, count in (("train", samples), ("valid", None), ("test", None)):
        given = getattr(splits, name)
        pairs = zip(digits.scaled(given.inputs[:count]), given.targets[:count] % labels, strict=True)
        parts[name] = [{"pixel_values": image, "labels": label} for image, label in pairs]
    classes = splits.facts.classes if labels == 10 else ("even", "odd")
    return replace(splits, **parts, facts=replace(splits.facts, classes=classes), prepare=None)


def ten_digits() -> ViTForImageClassification:
    sizes = {"image_size": 8, "patch_size": 2, "num_channels": 1, "num_attention_heads": 4, "num_hidden_layers": 2}
    return ViTForImageClassification(ViTConfig(**sizes, hidden_size=64, intermediate_size=128, num_labels=10))


def base() -> Recipe:
    """The model to start from, which knows the ten digits."""
    return Recipe(
        name="vit-digits", model=ten_digits, data=read, epochs=20, batch=64, lr=2e-3, schedule="cosine", warmup=0.1,
        trackers=(),
    )  # fmt: skip


def recipe(weights: str = WEIGHTS, rank: int = 4) -> Recipe:
    if not Path(weights, "config.json").exists():
        raise SystemExit(f"There are no weights in {weights}: type `python examples/lora.py` first.")

    def model() -> Any:
        known = ViTForImageClassification.from_pretrained(weights)
        known.classifier = type(known.classifier)(known.config.hidden_size, 2)  # a new head
        known.num_labels = known.config.num_labels = 2
        adapters = LoraConfig(
            r=rank, lora_alpha=4 * rank, lora_dropout=0.1, target_modules=["q_proj", "v_proj"],
            modules_to_save=["classifier"],
        )  # fmt: skip
        return get_peft_model(known, adapters)

    def data(request: Any) -> Splits:
        return read(request, labels=2, samples=150)

    return Recipe(
        name="lora", model=model, data=data, epochs=30, batch=25, lr=5e-3, schedule="cosine", weight_decay=0.01,
        trackers=(),
    )  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:]:
        run = Path(sys.argv[1])
        trueloop.load(run).model.save_pretrained(run / "adapter")
    else:
        trained = trueloop.train(base())
        trueloop.load(trained.folder, recipe=base()).model.save_pretrained(WEIGHTS)
