"""Accelerate, as its quick tour and its guides on accumulation and checkpoints say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, ProjectConfiguration, set_seed
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.wrapped import job


def loop(
    accelerator: Accelerator,
    model: Any,
    optimizer: Any,
    loader: Any,
    loss_of: Any = F.cross_entropy,
    scheduler: Any = None,
) -> None:
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = loss_of(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            optimizer.zero_grad()


def tokens(folder: Path) -> dict[str, Any]:
    accelerator, model = Accelerator(cpu=True, gradient_accumulation_steps=4), job.Tokens()
    optimizer = job.notes.watch(model, torch.optim.SGD(model.parameters(), lr=1.0))
    loader = DataLoader(TensorDataset(*job.sequences()), batch_size=1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    loop(accelerator, model, optimizer, loader, job.token_loss)
    return job.judge_tokens()


def tokens_by_hand(folder: Path) -> dict[str, Any]:
    """The guide on samples of variable size: the window, the count and the factor are the user's."""
    accelerator, model = Accelerator(cpu=True, gradient_accumulation_steps=4), job.Tokens()
    optimizer = job.notes.watch(model, torch.optim.SGD(model.parameters(), lr=1.0))
    loader = DataLoader(TensorDataset(*job.sequences()), batch_size=1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches = list(loader)
    count = accelerator.gather(sum((y != job.IGNORED).sum() for _, y in batches)).sum().item()
    for x, y in batches:
        with accelerator.accumulate(model):
            loss = (
                job.token_loss(model(x), y, "sum")
                * accelerator.num_processes
                * accelerator.gradient_accumulation_steps
                / count
            )
            accelerator.backward(loss)
    optimizer.step()
    return job.judge_tokens()


def partial(folder: Path) -> dict[str, Any]:
    accelerator, model = Accelerator(cpu=True, gradient_accumulation_steps=4), job.net(0.0)
    optimizer = job.notes.watch(model, torch.optim.SGD(model.parameters(), lr=0.1))
    wrapped, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(job.dataset(20), batch_size=4))
    for _ in range(2):
        loop(accelerator, wrapped, optimizer, loader)
    return job.judge_partial(model)


def _resumable(folder: Path, then: Any, configuration: DataLoaderConfiguration | None = None) -> Any:
    set_seed(0)
    accelerator = Accelerator(cpu=True, dataloader_config=configuration)
    model = job.net()
    optimizer = job.notes.watch(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), then)
    set_seed(1)
    return accelerator, *accelerator.prepare(
        model, optimizer, DataLoader(job.dataset(), batch_size=job.BATCH, shuffle=True)
    )


def _train(
    folder: Path, then: Any = lambda _: None, configuration: Any = None, *, resume: bool = False, save: bool = True
) -> dict[str, Any]:
    accelerator, model, optimizer, loader = _resumable(folder, then, configuration)
    first = 0
    if resume:
        accelerator.load_state(str(folder / "saved"))
        first = job.SAVE_AT
    step = first
    for epoch in range(2):
        if configuration is not None:
            loader.set_epoch(epoch)
        batches = accelerator.skip_first_batches(loader, first) if first and epoch == 0 else loader
        for x, y in batches:
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step == job.SAVE_AT and not resume:
                accelerator.save_state(str(folder / "saved"))
    return job.written()


def whole(folder: Path) -> dict[str, Any]:
    return _train(folder)


def killed(folder: Path) -> dict[str, Any]:
    return _train(folder, job.killed(folder))


def again(folder: Path) -> dict[str, Any]:
    return _train(folder, resume=True)


def seedable() -> DataLoaderConfiguration:
    return DataLoaderConfiguration(use_seedable_sampler=True)


def whole_seedable(folder: Path) -> dict[str, Any]:
    return _train(folder, configuration=seedable())


def killed_seedable(folder: Path) -> dict[str, Any]:
    return _train(folder, job.killed(folder), seedable())


def again_seedable(folder: Path) -> dict[str, Any]:
    return _train(folder, configuration=seedable(), resume=True)


def _validated(validate: bool) -> torch.Tensor:
    job.anew()
    set_seed(0)
    accelerator, model = Accelerator(cpu=True), job.net()
    optimizer = job.notes.watch(model, torch.optim.SGD(model.parameters(), lr=0.1))
    train, valid = (
        DataLoader(job.dataset(), batch_size=job.BATCH, shuffle=True),
        DataLoader(job.dataset(), batch_size=job.BATCH),
    )
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
    for _ in range(3):
        model.train()
        loop(accelerator, model, optimizer, train)
        if validate:
            model.eval()
            for x, y in valid:
                with torch.no_grad():
                    accelerator.gather_for_metrics((model(x).argmax(-1), y))
    return job.notes.weights[-1]


def validation(folder: Path) -> dict[str, Any]:
    return {"difference": float((_validated(True) - _validated(False)).abs().max())}


def nan(folder: Path) -> dict[str, Any]:
    accelerator, model = Accelerator(cpu=True), job.net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loop(accelerator, *accelerator.prepare(model, optimizer, DataLoader(job.dataset(nan_at=21), batch_size=job.BATCH)))
    return {"nan": float(job.flat(model).isnan().float().mean())}


def sigterm(folder: Path) -> dict[str, Any]:
    accelerator, model = Accelerator(cpu=True), job.net()
    optimizer = job.notes.watch(model, torch.optim.SGD(model.parameters(), lr=0.1), job.signalled)
    loop(accelerator, *accelerator.prepare(model, optimizer, DataLoader(job.dataset(400), batch_size=job.BATCH)))
    accelerator.save_state(str(folder / "checkpoint"))
    return {"steps": len(job.notes.forwards)}


def _project(folder: Path) -> Accelerator:
    return Accelerator(cpu=True, project_config=ProjectConfiguration(str(folder), automatic_checkpoint_naming=True))


def damage(folder: Path) -> dict[str, Any]:
    accelerator, model = _project(folder), job.net()
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(job.dataset(), batch_size=job.BATCH)
    )
    for _ in range(2):
        loop(accelerator, model, optimizer, loader)
        accelerator.save_state()
    job.cut(folder / "checkpoints" / "checkpoint_1" / "model.safetensors")
    return {}


def damaged(folder: Path) -> dict[str, Any]:
    accelerator, model = _project(folder), job.net()
    accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(job.dataset(), batch_size=job.BATCH)
    )
    accelerator.load_state()
    return {"resumed": "something"}


def _scheduled(accumulate: int, count: int) -> dict[str, Any]:
    accelerator, model = Accelerator(cpu=True, gradient_accumulation_steps=accumulate), job.net()
    optimizer = job.notes.watch(model, torch.optim.SGD(model.parameters(), lr=1.0))
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=20)
    loader = DataLoader(job.dataset(count), batch_size=job.BATCH, shuffle=True)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for _ in range(2):
        loop(accelerator, model, optimizer, loader, scheduler=scheduler)
    return {"rates": job.notes.rates}


def schedule(folder: Path) -> dict[str, Any]:
    return _scheduled(1, 40)


def schedule_accumulated(folder: Path) -> dict[str, Any]:
    return _scheduled(2, 80)


def metric(folder: Path) -> dict[str, Any]:
    accelerator = Accelerator(cpu=True)
    model, loader = accelerator.prepare(job.Echo(), DataLoader(TensorDataset(job.UNEVEN), batch_size=4))
    values = [accelerator.gather_for_metrics(model(x).detach()) for (x,) in loader]
    return {"value": torch.cat(values).mean().item()}


def ranks(folder: Path) -> dict[str, Any]:
    accelerator, model = Accelerator(cpu=True), job.net()
    optimizer = job.notes.watch(model, torch.optim.SGD(model.parameters(), lr=1.0))
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=10)
    loader, valid = (
        DataLoader(job.dataset(), batch_size=2, shuffle=True),
        DataLoader(TensorDataset(job.SPREAD), batch_size=2),
    )
    model, optimizer, loader, valid, scheduler = accelerator.prepare(model, optimizer, loader, valid, scheduler)
    loop(accelerator, model, optimizer, loader, scheduler=scheduler)
    values = [accelerator.gather_for_metrics(x) for (x,) in valid]
    return {"rates": job.notes.rates, "value": torch.cat(values).mean().item()}


if __name__ == "__main__":
    job.main({name: value for name, value in globals().items() if callable(value)})
