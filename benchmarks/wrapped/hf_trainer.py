"""Hugging Face's Trainer, with a network of one's own, as its pages on the Trainer say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

from benchmarks.wrapped import job


class WithLoss(nn.Module):
    """What the Trainer wants of a model: a dict with the loss first."""

    def __init__(self, net: nn.Module, loss: Any = F.cross_entropy) -> None:
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        output = self.net(x)
        return {"logits": output} if labels is None else {"loss": self.loss(output, labels), "logits": output}


class Rows(torch.utils.data.Dataset[Any]):
    def __init__(self, inputs: Tensor, labels: Tensor) -> None:
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        return {"x": self.inputs[number], "labels": self.labels[number]}


def rows(count: int = job.SAMPLES, **options: Any) -> Rows:
    return Rows(*job.samples(count, **options))


def arguments(folder: Path, **options: Any) -> TrainingArguments:
    usual = {"num_train_epochs": 1, "per_device_train_batch_size": job.BATCH, "save_strategy": "no", "lr_scheduler_type": "constant",  # noqa: E501
             "max_grad_norm": 0.0}  # fmt: skip
    return TrainingArguments(
        str(folder), use_cpu=True, report_to="none", disable_tqdm=True, seed=0, **{**usual, **options}
    )


def trainer(model: nn.Module, settings: TrainingArguments, data: Any, *, lr: float = 0.1, momentum: float = 0.0, then: Any = None,  # noqa: E501
            scheduler: Any = None, **options: Any) -> Trainer:  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    job.notes.watch(model, optimizer, then or (lambda _: None))
    made = scheduler(optimizer) if scheduler else None
    return Trainer(model, settings, train_dataset=data, optimizers=(optimizer, made), **options)


def tokens_asked(folder: Path) -> dict[str, Any]:
    """With `compute_loss_func`, which is given the number of items of the whole step."""

    def loss(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        return job.token_loss(outputs["logits"], labels, "sum") / num_items_in_batch

    settings = arguments(folder, per_device_train_batch_size=1, gradient_accumulation_steps=4)
    trainer(
        WithLoss(job.Tokens(), job.token_loss), settings, Rows(*job.sequences()), lr=1.0, compute_loss_func=loss
    ).train()
    return job.judge_tokens()


def tokens(folder: Path) -> dict[str, Any]:
    """With the loss that the model itself returns: a mean."""
    settings = arguments(folder, per_device_train_batch_size=1, gradient_accumulation_steps=4)
    trainer(WithLoss(job.Tokens(), job.token_loss), settings, Rows(*job.sequences()), lr=1.0).train()
    return job.judge_tokens()


def partial(folder: Path) -> dict[str, Any]:
    model = WithLoss(job.net(0.0))
    trainer(model, arguments(folder, gradient_accumulation_steps=4, num_train_epochs=2), rows(20)).train()
    return job.judge_partial(model)


def _resumable(folder: Path, then: Any = None, resume: bool = False) -> dict[str, Any]:
    settings = arguments(folder, num_train_epochs=2, save_strategy="steps", save_steps=job.SAVE_AT)
    trainer(WithLoss(job.net()), settings, rows(), momentum=0.9, then=then).train(resume_from_checkpoint=resume)
    return job.written()


def whole(folder: Path) -> dict[str, Any]:
    return _resumable(folder)


def killed(folder: Path) -> dict[str, Any]:
    return _resumable(folder, job.killed(folder))


def again(folder: Path) -> dict[str, Any]:
    return _resumable(folder, resume=True)


def _validated(folder: Path, validate: bool) -> torch.Tensor:
    job.anew()
    model = WithLoss(job.net())
    trainer(
        model,
        arguments(folder, num_train_epochs=3, eval_strategy="epoch" if validate else "no"),
        rows(),
        eval_dataset=rows(),
    ).train()
    return job.notes.weights[-1]


def validation(folder: Path) -> dict[str, Any]:
    return {"difference": float((_validated(folder, True) - _validated(folder, False)).abs().max())}


def nan(folder: Path) -> dict[str, Any]:
    model = WithLoss(job.net())
    trainer(model, arguments(folder), rows(nan_at=21)).train()
    return {"nan": float(job.flat(model).isnan().float().mean())}


def sigterm(folder: Path) -> dict[str, Any]:
    trainer(WithLoss(job.net()), arguments(folder, save_strategy="steps"), rows(400), then=job.signalled).train()
    return {"steps": len(job.notes.forwards)}


def sigterm_asked(folder: Path) -> dict[str, Any]:
    """With `enable_jit_checkpoint=True`."""
    settings = arguments(folder, save_strategy="steps", enable_jit_checkpoint=True)
    trainer(WithLoss(job.net()), settings, rows(40_000), then=job.signalled).train()
    return {"steps": len(job.notes.forwards)}


def damage(folder: Path) -> dict[str, Any]:
    trainer(WithLoss(job.net()), arguments(folder, save_strategy="steps", save_steps=5), rows()).train()
    job.cut(folder / "checkpoint-10" / "model.safetensors")
    return {}


def damaged(folder: Path) -> dict[str, Any]:
    settings = arguments(folder, num_train_epochs=2, save_strategy="steps", save_steps=5)
    trainer(WithLoss(job.net()), settings, rows()).train(resume_from_checkpoint=True)
    return {"resumed": f"{20 - len(job.notes.forwards)} steps"}


def linear(optimizer: Any, steps: int = 20) -> Any:
    return torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=steps)


def schedule(folder: Path) -> dict[str, Any]:
    trainer(WithLoss(job.net()), arguments(folder, num_train_epochs=2), rows(), lr=1.0, scheduler=linear).train()
    return {"rates": job.notes.rates}


def schedule_accumulated(folder: Path) -> dict[str, Any]:
    settings = arguments(folder, num_train_epochs=2, gradient_accumulation_steps=2)
    trainer(WithLoss(job.net()), settings, rows(80), lr=1.0, scheduler=linear).train()
    return {"rates": job.notes.rates}


def _mean(output: Tensor, _: Any) -> Tensor:
    return output.mean()


def metric(folder: Path) -> dict[str, Any]:
    model = WithLoss(job.Echo(), _mean)
    found = Trainer(
        model, arguments(folder, per_device_eval_batch_size=4), eval_dataset=Rows(job.UNEVEN, job.UNEVEN)
    ).evaluate()
    return {"value": found["eval_loss"]}


def ranks(folder: Path) -> dict[str, Any]:
    settings = arguments(folder, per_device_train_batch_size=2, per_device_eval_batch_size=2, ddp_backend="gloo")
    trainer(WithLoss(job.net()), settings, rows(), lr=1.0, scheduler=lambda optimizer: linear(optimizer, 10)).train()
    found = Trainer(WithLoss(job.Echo(), _mean), settings, eval_dataset=Rows(job.SPREAD, job.SPREAD)).evaluate()
    return {"rates": job.notes.rates, "value": found["eval_loss"]}


if __name__ == "__main__":
    job.main({name: value for name, value in globals().items() if callable(value)})
