"""Real models of transformers, tiny, where it is installed: `test_call_model.py` has models with the same interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from tests.docs_blocks import python_blocks
from tests.engine.small import SMALL, Of, furthest, ran
from tests.parallel.ranks import on_ranks
from trueloop.data.dataset import Dataset
from trueloop.data.source import Splits
from trueloop.engine.loop import Loop
from trueloop.engine.model_loss import ModelLoss
from trueloop.engine.preflight import check_before_training

pytestmark = pytest.mark.filterwarnings("ignore")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers")

LENGTH, VOCABULARY = 10, 23
SMALL_BERT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
SPECIAL = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
STILL = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
CALM = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def gpt2() -> nn.Module:
    sizes = {"vocab_size": VOCABULARY, "n_positions": LENGTH, "n_embd": 16, "n_layer": 1, "n_head": 2}
    made: nn.Module = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **SPECIAL, **STILL))
    return made


def masked_bert() -> nn.Module:
    config = transformers.BertConfig(vocab_size=VOCABULARY, **SMALL_BERT, **CALM)
    made: nn.Module = transformers.BertForMaskedLM(config)
    return made


def classifier() -> nn.Module:
    config = transformers.BertConfig(vocab_size=VOCABULARY, num_labels=3, **SMALL_BERT, **CALM)
    made: nn.Module = transformers.BertForSequenceClassification(config)
    return made


def t5() -> nn.Module:
    sizes = {"vocab_size": VOCABULARY, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    special = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 0}
    made: nn.Module = transformers.T5ForConditionalGeneration(
        transformers.T5Config(**sizes, **special, dropout_rate=0.0)
    )
    return made


def rows(model: Callable[[], nn.Module], count: int) -> Dataset:
    draws = torch.Generator().manual_seed(0)
    found = []
    for number in range(count):
        tokens = torch.randint(1, VOCABULARY, (LENGTH,), generator=draws)
        labels = tokens.clone()
        labels[1 + (number * 3) % LENGTH :] = -100
        one: Any = int(tokens[0]) % 3 if model is classifier else labels
        found.append({"input_ids": tokens, "attention_mask": torch.ones(LENGTH, dtype=torch.int64), "labels": one})
    return Dataset(found)


@pytest.mark.parametrize(
    ("model", "over", "metric"),
    [
        (gpt2, "labels after the first of each row", "loss"),
        (masked_bert, "labels", "loss"),
        (classifier, "labels", "accuracy"),
        (t5, "labels", "loss"),
    ],
)
def test_a_model_is_trained_as_it_is(model: Callable[[], nn.Module], over: str, metric: str) -> None:
    data = Of(Splits(rows(model, 20), rows(model, 7)))
    recipe = replace(SMALL, model=model, data=data, batch=8, optimizer="sgd", lr=0.1, epochs=2)
    loop = Loop.of(recipe)
    task = loop.parts.task
    assert isinstance(task, ModelLoss)
    assert (task.over, task.metric, task.exact) == (over, metric, True)
    check_before_training(loop.parts)
    whole, split = ran(recipe), ran(replace(recipe, accumulate=4))
    assert split.losses == pytest.approx(whole.losses, rel=1e-4)
    assert furthest(whole.weights, split.weights) < 1e-4
    assert {"loss", "accuracy"} <= set(whole.kept.rows[-1].values)
    # Two processes: of gpt2, some micro-batches have no label that counts, and their mean is NaN
    first, _ = on_ranks(lambda _: ran(replace(recipe, accumulate=4)).losses)
    assert first == pytest.approx(whole.losses, rel=1e-4)


def _page() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(python_blocks("training/hugging-face.md")[0], "hugging-face.md", "exec"), names)
    return names


def test_the_recipe_of_the_page_learns() -> None:
    names = _page()
    over = ran(replace(names["recipe"], trackers=(), device="cpu"))
    losses = over.kept.values("loss", "valid")
    assert losses[-1] < 0.7 * losses[0]
    assert over.kept.values("accuracy", "valid")[-1] > over.kept.values("accuracy", "valid")[0]
