import torch
from torch import nn
from torch.utils.data import TensorDataset, default_collate
from transformers import Trainer, TrainingArguments, set_seed

import job


class Distill(nn.Module):
    def __init__(self):
        super().__init__()
        self.student = job.student()

    def forward(self, x, labels):
        logits = self.student(x)
        return {"loss": job.losses(logits, x, labels).mean(), "logits": logits}


def collate(rows):
    return dict(zip(("x", "labels"), default_collate(rows)))


def metrics(answers):
    return {"accuracy": job.accuracy(*map(torch.as_tensor, answers)).mean().item()}


def main() -> list[float]:
    set_seed(0)
    train, valid = TensorDataset(job.inputs[:320], job.labels[:320]), TensorDataset(job.inputs[320:], job.labels[320:])
    arguments = TrainingArguments(
        "out", num_train_epochs=5, per_device_train_batch_size=32, learning_rate=1e-2, lr_scheduler_type="constant", max_grad_norm=0.0,
        train_sampling_strategy="sequential", logging_steps=1, eval_strategy="steps", eval_steps=5, save_steps=5, save_total_limit=2,
        load_best_model_at_end=True, metric_for_best_model="accuracy", greater_is_better=True, report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(Distill(), arguments, collate, train, valid, compute_metrics=metrics)
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]
