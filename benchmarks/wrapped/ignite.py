"""Ignite, as its pages on trainers, checkpoints and schedulers say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ignite.distributed as idist
import torch
import torch.nn.functional as F  # noqa: N812
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver
from ignite.handlers.param_scheduler import LRScheduler
from ignite.metrics import Loss
from ignite.utils import manual_seed
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.wrapped import job


def shuffled(count: int = job.SAMPLES) -> DataLoader[Any]:
    return DataLoader(job.dataset(count), batch_size=job.BATCH, shuffle=True)


def made(
    model: Any, loss: Any = F.cross_entropy, lr: float = 0.1, momentum: float = 0.0, then: Any = None, **options: Any
) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    job.notes.watch(model, optimizer, then or (lambda _: None))
    return create_supervised_trainer(model, optimizer, loss, **options), optimizer


def tokens(folder: Path) -> dict[str, Any]:
    trainer, _ = made(job.Tokens(), job.token_loss, lr=1.0, gradient_accumulation_steps=4)
    trainer.run(DataLoader(TensorDataset(*job.sequences()), batch_size=1), max_epochs=1)
    return job.judge_tokens()


def partial(folder: Path) -> dict[str, Any]:
    model = job.net(0.0)
    trainer, _ = made(model, gradient_accumulation_steps=4)
    trainer.run(DataLoader(job.dataset(20), batch_size=4), max_epochs=2)
    return job.judge_partial(model)


def _resumable(folder: Path, then: Any = None, *, resume: bool = False, deterministic: bool = False) -> dict[str, Any]:
    manual_seed(0)
    model = job.net()
    trainer, optimizer = made(model, momentum=0.9, then=then, deterministic=deterministic)
    parts = {"trainer": trainer, "model": model, "optimizer": optimizer}
    saving = Checkpoint(parts, DiskSaver(str(folder / "saved"), require_empty=False), n_saved=2)
    trainer.add_event_handler(Events.ITERATION_COMPLETED(every=job.SAVE_AT), saving)
    manual_seed(1)
    if resume:
        # the random states of a deterministic engine are numpy's: torch reads them only from files one trusts
        Checkpoint.load_objects(parts, torch.load(newest(folder / "saved"), weights_only=not deterministic))
    trainer.run(shuffled(), max_epochs=2)
    return job.written()


def newest(folder: Path) -> Path:
    return max(folder.glob("checkpoint_*.pt"), key=lambda path: int(path.stem.rsplit("_", 1)[1]))


def whole(folder: Path) -> dict[str, Any]:
    return _resumable(folder)


def killed(folder: Path) -> dict[str, Any]:
    return _resumable(folder, job.killed(folder))


def again(folder: Path) -> dict[str, Any]:
    return _resumable(folder, resume=True)


def whole_deterministic(folder: Path) -> dict[str, Any]:
    return _resumable(folder, deterministic=True)


def killed_deterministic(folder: Path) -> dict[str, Any]:
    return _resumable(folder, job.killed(folder), deterministic=True)


def again_deterministic(folder: Path) -> dict[str, Any]:
    return _resumable(folder, resume=True, deterministic=True)


def _validated(validate: bool, **options: Any) -> torch.Tensor:
    job.anew()
    manual_seed(0)
    model = job.net()
    trainer, _ = made(model, **options)
    evaluator, valid = (
        create_supervised_evaluator(model, {"loss": Loss(F.cross_entropy)}),
        DataLoader(job.dataset(), batch_size=job.BATCH),
    )

    def validate_now(_: Engine) -> None:
        evaluator.run(valid)

    if validate:
        trainer.add_event_handler(Events.EPOCH_COMPLETED, validate_now)
    trainer.run(shuffled(), max_epochs=3)
    return job.notes.weights[-1]


def validation(folder: Path) -> dict[str, Any]:
    return {"difference": float((_validated(True) - _validated(False)).abs().max())}


def nan(folder: Path) -> dict[str, Any]:
    model = job.net()
    trainer, _ = made(model)
    trainer.run(DataLoader(job.dataset(nan_at=21), batch_size=job.BATCH), max_epochs=1)
    return {"nan": float(job.flat(model).isnan().float().mean())}


def nan_asked(folder: Path) -> dict[str, Any]:
    """With the handler TerminateOnNan."""
    from ignite.handlers import TerminateOnNan

    model = job.net()
    trainer, _ = made(model)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
    trainer.run(DataLoader(job.dataset(nan_at=21), batch_size=job.BATCH), max_epochs=1)
    return {"nan": float(job.flat(model).isnan().float().mean()), "steps": len(job.notes.forwards)}


def sigterm(folder: Path) -> dict[str, Any]:
    model = job.net()
    trainer, optimizer = made(model, then=job.signalled)
    saving = Checkpoint(
        {"model": model, "optimizer": optimizer, "trainer": trainer}, DiskSaver(str(folder / "saved")), n_saved=2
    )
    trainer.add_event_handler(Events.EPOCH_COMPLETED, saving)
    trainer.run(shuffled(400), max_epochs=1)
    return {"steps": len(job.notes.forwards)}


def damage(folder: Path) -> dict[str, Any]:
    model = job.net()
    trainer, optimizer = made(model)
    saving = Checkpoint(
        {"trainer": trainer, "model": model, "optimizer": optimizer}, DiskSaver(str(folder / "saved")), n_saved=2
    )
    trainer.add_event_handler(Events.ITERATION_COMPLETED(every=5), saving)
    trainer.run(shuffled(), max_epochs=1)
    job.cut(newest(folder / "saved"))
    return {}


def damaged(folder: Path) -> dict[str, Any]:
    model = job.net()
    trainer, optimizer = made(model)
    parts = {"trainer": trainer, "model": model, "optimizer": optimizer}
    Checkpoint.load_objects(parts, torch.load(newest(folder / "saved"), weights_only=True))
    trainer.run(shuffled(), max_epochs=2)
    return {"resumed": f"{20 - len(job.notes.forwards)} steps"}


def _scheduled(accumulate: int, count: int) -> dict[str, Any]:
    trainer, optimizer = made(job.net(), lr=1.0, gradient_accumulation_steps=accumulate)
    scheduler = LRScheduler(torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=20))
    trainer.add_event_handler(Events.ITERATION_STARTED, scheduler)
    trainer.run(shuffled(count), max_epochs=2)
    return {"rates": job.notes.rates}


def schedule(folder: Path) -> dict[str, Any]:
    return _scheduled(1, 40)


def schedule_accumulated(folder: Path) -> dict[str, Any]:
    return _scheduled(2, 80)


def _evaluated(values: torch.Tensor, batch: int) -> float:
    model = idist.auto_model(job.Echo())
    evaluator = create_supervised_evaluator(model, {"loss": Loss(lambda output, _: output.mean())})
    state = evaluator.run(idist.auto_dataloader(TensorDataset(values, values), batch_size=batch, shuffle=False))
    return float(state.metrics["loss"])


def metric(folder: Path) -> dict[str, Any]:
    return {"value": _evaluated(job.UNEVEN, 4)}


def ranks(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def train(rank: int) -> None:
        model = job.net()
        optimizer = job.notes.watch(model, torch.optim.SGD(model.parameters(), lr=1.0))
        trainer = create_supervised_trainer(idist.auto_model(model), idist.auto_optim(optimizer), F.cross_entropy)
        scheduler = LRScheduler(torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=10))
        trainer.add_event_handler(Events.ITERATION_STARTED, scheduler)
        trainer.run(idist.auto_dataloader(job.dataset(), batch_size=4, shuffle=True), max_epochs=1)
        found.update(rates=job.notes.rates, value=_evaluated(job.SPREAD, 4))

    with idist.Parallel(backend="gloo") as parallel:
        parallel.run(train)
    return found


if __name__ == "__main__":
    job.main({name: value for name, value in globals().items() if callable(value)})
