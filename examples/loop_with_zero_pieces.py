"""Zero pieces: plain PyTorch. What it takes to accumulate exactly, follow a schedule and come back after a crash,
written by hand.

python examples/loop_with_zero_pieces.py
"""

from __future__ import annotations

import math
import os
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from loop_job import ACCUMULATE, BATCH, CLIP, EPOCHS, LR, SEED, TRAIN, VALID, digits, network, order
from torch.utils.data import DataLoader


def main(folder: str = "runs/loop-with-zero-pieces") -> list[float]:
    """The loss of each epoch."""
    train, valid = digits(TRAIN), digits(VALID)
    torch.manual_seed(SEED)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    total = EPOCHS * math.ceil(len(train) / BATCH)
    saved = Path(folder) / "checkpoint.pt"
    saved.parent.mkdir(parents=True, exist_ok=True)
    first, step, curve = 0, 0, []
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        first, step, curve = state["epoch"], state["step"], state["curve"]

    for epoch in range(first, EPOCHS):
        batches = iter(DataLoader(train, batch_size=BATCH // ACCUMULATE, sampler=order(epoch).tolist()))
        losses = []
        while window := list(islice(batches, ACCUMULATE)):  # the last one of an epoch is smaller
            targets = sum(len(labels) for _, labels in window)
            loss = torch.zeros(())
            for inputs, labels in window:
                part = F.cross_entropy(model(inputs), labels, reduction="sum") / targets
                part.backward()
                loss += part.detach()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            for group in optimizer.param_groups:
                group["lr"] = LR * (1 + math.cos(math.pi * step / total)) / 2
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            losses.append(loss)
        curve.append(torch.stack(losses).mean().item())

        random = torch.get_rng_state()
        model.eval()
        with torch.inference_mode():
            right = sum(
                (model(inputs).argmax(1) == labels).sum().item() for inputs, labels in DataLoader(valid, batch_size=256)
            )
        model.train()
        torch.set_rng_state(
            random
        )  # a loader draws a number each time it starts: validation must not move the training
        print(f"epoch {epoch + 1}  loss {curve[-1]:.4f}  accuracy {right / len(valid):.4f}")

        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": random}
        aside = saved.with_suffix(".writing")
        torch.save({**state, "epoch": epoch + 1, "step": step, "curve": curve}, aside)
        os.replace(aside, saved)  # whole or not at all
    return curve


if __name__ == "__main__":
    main()
