"""`python -m tiny_bert`: a random BERT of two small layers, its tokenizer and a metric, where scripts look for them
before the network.

`from_pretrained("bert-base-cased")` and `evaluate.load("glue", "mrpc")` read a folder of that name, if there is one
where the script runs.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

LABELS = {0: "not_equivalent", 1: "equivalent"}
METRIC = '''"""Accuracy and F1, in the place of the published metric."""
import datasets
import evaluate


class Glue(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        hits = sum(a == b == 1 for a, b in zip(predictions, references))
        accuracy = sum(a == b for a, b in zip(predictions, references)) / len(references)
        return {"accuracy": accuracy, "f1": 2 * hits / max(1, sum(predictions) + sum(references))}
'''


def words(files: list[Path]) -> list[str]:
    found = {
        word
        for file in files
        for word in file.read_text(encoding="utf-8").replace(",", " ").replace('"', " ").lower().split()
    }
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(found)]


def main(name: str, files: list[Path]) -> None:
    tokenizers: Any = importlib.import_module("tokenizers")
    transformers: Any = importlib.import_module("transformers")
    vocabulary = {word: number for number, word in enumerate(words(files))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **special)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, id2label=LABELS,  # noqa: E501
        label2id={label: number for number, label in LABELS.items()},
    )  # fmt: skip
    wrapped.save_pretrained(name)
    transformers.BertForSequenceClassification(config).save_pretrained(name)
    for metric in ("glue", "accuracy"):
        Path(metric).mkdir()
        Path(metric, f"{metric}.py").write_text(METRIC, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], [Path(file) for file in sys.argv[2:]])
