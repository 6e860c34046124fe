"""Lightning, as "Lightning in 15 minutes" and its pages on checkpoints, accumulation and schedulers say."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import lightning as L  # noqa: N812
import torch
import torch.nn.functional as F  # noqa: N812
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.wrapped import job


class Module(L.LightningModule):
    def __init__(
        self, net: Any, loss: Any = F.cross_entropy, lr: float = 0.1, momentum: float = 0.0, decay: Any = None
    ) -> None:
        super().__init__()
        self.net, self.loss, self.lr, self.momentum, self.decay = net, loss, lr, momentum, decay
        self.then: Any = lambda _: None

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        x, y = batch
        loss = self.loss(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val_loss", self.loss(self.net(batch[0]), batch[-1]), sync_dist=True)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.net.parameters(), lr=self.lr, momentum=self.momentum)
        job.notes.watch(self.net, optimizer, self.then)
        return optimizer if self.decay is None else self.decay(optimizer)


def trainer(folder: Path, **options: Any) -> L.Trainer:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    options.setdefault("max_epochs", 1)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return L.Trainer(default_root_dir=folder, **{**quiet, **options})


def shuffled(count: int = job.SAMPLES, **options: Any) -> DataLoader[Any]:
    return DataLoader(job.dataset(count), batch_size=job.BATCH, shuffle=True, **options)


def tokens(folder: Path) -> dict[str, Any]:
    module = Module(job.Tokens(), job.token_loss, lr=1.0)
    trainer(folder, accumulate_grad_batches=4).fit(module, DataLoader(TensorDataset(*job.sequences()), batch_size=1))
    return job.judge_tokens()


def partial(folder: Path) -> dict[str, Any]:
    module = Module(job.net(0.0))
    trainer(folder, accumulate_grad_batches=4, max_epochs=2).fit(module, DataLoader(job.dataset(20), batch_size=4))
    return job.judge_partial(module.net)


def _resumable(folder: Path, then: Any = lambda _: None, resume: str | None = None) -> dict[str, Any]:
    L.seed_everything(0, workers=True)
    module = Module(job.net(), momentum=0.9)
    module.then = then
    saving = ModelCheckpoint(folder, every_n_train_steps=job.SAVE_AT, save_top_k=-1, save_last=True)
    L.seed_everything(1, workers=True)
    trainer(folder, max_epochs=2, callbacks=[saving]).fit(module, shuffled(), ckpt_path=resume)
    return job.written()


def whole(folder: Path) -> dict[str, Any]:
    return _resumable(folder)


def killed(folder: Path) -> dict[str, Any]:
    return _resumable(folder, job.killed(folder))


def again(folder: Path) -> dict[str, Any]:
    return _resumable(folder, resume="last")


def _validated(folder: Path, validate: bool) -> torch.Tensor:
    job.anew()
    L.seed_everything(0, workers=True)
    module = Module(job.net())
    valid = DataLoader(job.dataset(), batch_size=job.BATCH) if validate else None
    trainer(folder, max_epochs=3).fit(module, shuffled(), valid)
    return job.notes.weights[-1]


def validation(folder: Path) -> dict[str, Any]:
    return {"difference": float((_validated(folder, True) - _validated(folder, False)).abs().max())}


def nan(folder: Path) -> dict[str, Any]:
    module = Module(job.net())
    trainer(folder).fit(module, DataLoader(job.dataset(nan_at=21), batch_size=job.BATCH))
    return {"nan": float(job.flat(module.net).isnan().float().mean())}


def sigterm(folder: Path) -> dict[str, Any]:
    module = Module(job.net())
    module.then = job.signalled
    trainer(folder, max_epochs=1).fit(module, shuffled(400))
    return {"steps": len(job.notes.forwards)}


def damage(folder: Path) -> dict[str, Any]:
    saving = ModelCheckpoint(folder, every_n_train_steps=5, save_top_k=-1, save_last=True)
    trainer(folder, callbacks=[saving]).fit(Module(job.net()), shuffled())
    for file in (
        folder / "last.ckpt",
        max(folder.glob("epoch*.ckpt"), key=lambda path: int(path.stem.split("step=")[1])),
    ):
        job.cut(file)
    return {}


def damaged(folder: Path) -> dict[str, Any]:
    saving = ModelCheckpoint(folder, every_n_train_steps=5, save_top_k=-1, save_last=True)
    trainer(folder, max_epochs=2, callbacks=[saving]).fit(Module(job.net()), shuffled(), ckpt_path="last")
    return {"resumed": f"{20 - len(job.notes.forwards)} steps"}


def linear(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=20)


def _scheduled(folder: Path, decay: Any, accumulate: int = 1, count: int = 40) -> dict[str, Any]:
    trainer(folder, max_epochs=2, accumulate_grad_batches=accumulate).fit(
        Module(job.net(), lr=1.0, decay=decay), shuffled(count)
    )
    return {"rates": job.notes.rates}


def schedule(folder: Path) -> dict[str, Any]:
    return _scheduled(folder, lambda optimizer: ([optimizer], [linear(optimizer)]))


def per_step(optimizer: Any) -> dict[str, Any]:
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": linear(optimizer), "interval": "step"}}


def schedule_per_step(folder: Path) -> dict[str, Any]:
    return _scheduled(folder, per_step)


def schedule_accumulated(folder: Path) -> dict[str, Any]:
    return _scheduled(folder, per_step, 2, 80)


def _mean(output: torch.Tensor, _: Any) -> torch.Tensor:
    return output.mean()


def metric(folder: Path) -> dict[str, Any]:
    (found,) = trainer(folder).validate(
        Module(job.Echo(), _mean), DataLoader(TensorDataset(job.UNEVEN), batch_size=4), verbose=False
    )
    return {"value": found["val_loss"]}


def ranks(folder: Path) -> dict[str, Any]:
    def ten(optimizer: Any) -> Any:
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=10)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    run = trainer(folder, devices=2, strategy="ddp", enable_checkpointing=False)
    run.fit(Module(job.net(), lr=1.0, decay=ten), DataLoader(job.dataset(), batch_size=2, shuffle=True))
    run = trainer(folder, devices=2, strategy="ddp", enable_checkpointing=False)
    (found,) = run.validate(
        Module(job.Echo(), _mean), DataLoader(TensorDataset(job.SPREAD), batch_size=2), verbose=False
    )
    return {"rates": job.notes.rates[:10], "value": found["val_loss"]}


if __name__ == "__main__":
    job.main({name: value for name, value in globals().items() if callable(value)})
