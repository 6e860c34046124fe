"""The field that was meant by a name that no field has: other frameworks call it so, or it is misspelled."""

from collections.abc import Iterable
from typing import Final

from trueloop.errors import did_you_mean

__all__ = ["field_meant"]

_SYNONYMS: Final = {
    "lr": "learning_rate max_lr",
    "batch": "batch_size bs train_batch_size",
    "epochs": "num_epochs max_epochs num_train_epochs n_epochs",
    "steps": "max_steps num_steps iterations max_iters",
    "weight_decay": "wd l2",
    "accumulate": "gradient_accumulation_steps accumulate_grad_batches grad_accum",
    "clip": "gradient_clip_val max_grad_norm grad_clip",
    "schedule": "scheduler lr_scheduler",
    "warmup": "warmup_steps",
    "final": "min_lr",
    "precision": "amp dtype fp16 bf16 mixed_precision",
    "workers": "num_workers",
    "patience": "early_stopping",
    "seed": "random_seed",
    "loss": "loss_fn criterion",
    "optimizer": "opt optim",
    "ema": "ema_decay",
    "activation_checkpointing": "gradient_checkpointing",
    "log_every": "log_interval logging_steps",
    "evaluate_every": "eval_every eval_interval eval_steps val_check_interval",
    "save_every": "save_steps",
    "keep": "save_total_limit",
    "balanced": "sampler",
    "trackers": "logger report_to",
    "start_from": "pretrained init_from checkpoint",
    "label_smoothing": "smoothing",
    "compile": "torch_compile",
    "data": "dataset",
}
"""A field, and what other frameworks call it. Used in suggestions only."""
_FIELD_OF: Final = {word: field for field, words in _SYNONYMS.items() for word in words.split()}


def field_meant(word: str, known: Iterable[str]) -> str:
    """' Did you mean x?' for an unknown name."""
    meant = _FIELD_OF.get(word.lower())
    return f" Did you mean {meant}?" if meant else did_you_mean(word.lower(), known)
