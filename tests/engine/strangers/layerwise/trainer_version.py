import torch
import torch.nn.functional as F
from job import Net, decays, depth, splits
from torch import nn
from torch.utils.data import TensorDataset, default_collate
from transformers import Trainer, TrainingArguments, set_seed


class Job(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Net()

    def forward(self, x, labels):
        logits = self.model(x)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def collate(rows):
    return dict(zip(("x", "labels"), default_collate(rows)))


def metrics(answers):
    return {"accuracy": float((answers.predictions.argmax(-1) == answers.label_ids).mean())}


def main() -> list[float]:
    set_seed(0)
    train, valid = (TensorDataset(*part) for part in splits())
    job = Job()
    keys = sorted({(depth(name), decays(name)) for name, _ in job.model.named_parameters()})
    optimizer = torch.optim.AdamW(
        {"params": [p for name, p in job.model.named_parameters() if (depth(name), decays(name)) == key], "lr": 1e-2 * 0.7 ** key[0],
         "weight_decay": 0.1 if key[1] else 0.0}
        for key in keys
    )  # fmt: skip
    arguments = TrainingArguments(
        "out", num_train_epochs=5, per_device_train_batch_size=32, learning_rate=1e-2, lr_scheduler_type="constant", max_grad_norm=0.0,
        train_sampling_strategy="sequential", logging_steps=1, eval_strategy="steps", eval_steps=5, save_steps=5, save_total_limit=2,
        load_best_model_at_end=True, metric_for_best_model="accuracy", greater_is_better=True, report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(job, arguments, collate, train, valid, compute_metrics=metrics, optimizers=(optimizer, None))
    trainer.train()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]
