"""Some pieces: the loop is yours; accumulation, precision, schedule and checkpoints are trueloop's, each usable without
the others.

python examples/loop_with_some_pieces.py
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from loop_job import ACCUMULATE, BATCH, CLIP, EPOCHS, LR, SEED, TRAIN, VALID, digits, network, order
from torch.utils.data import DataLoader

import trueloop
from trueloop.engine.evaluate import evaluating


def main(folder: str = "runs/loop-with-some-pieces") -> list[float]:
    """The loss of each epoch."""
    train, valid = digits(TRAIN), digits(VALID)
    torch.manual_seed(SEED)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    precision = trueloop.Precision("fp32", torch.device("cpu"))
    rate = trueloop.Schedule("cosine", LR, total=EPOCHS * math.ceil(len(train) / BATCH))
    checkpoints = trueloop.Checkpoints(folder, model=model, optimizer=optimizer, scaler=precision.scaler)
    step = checkpoints.resume()
    curve = list(checkpoints.values.get("curve", []))

    for epoch in range(len(curve), EPOCHS):
        loader = DataLoader(train, batch_size=BATCH // ACCUMULATE, sampler=order(epoch).tolist())
        losses = []
        for window in trueloop.accumulate(loader, ACCUMULATE):
            loss = torch.zeros(())
            for inputs, labels in window:
                with precision.autocast():
                    part = F.cross_entropy(model(inputs), labels, reduction="sum") / window.targets
                precision.scaled(part).backward()
                loss += part.detach()
            precision.unscale(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            trueloop.set_rate(optimizer, rate(step))
            precision.step(optimizer)
            precision.learn()
            optimizer.zero_grad()
            step += 1
            losses.append(loss)
        curve.append(torch.stack(losses).mean().item())
        with evaluating(model):
            right = sum(
                (model(inputs).argmax(1) == labels).sum().item() for inputs, labels in DataLoader(valid, batch_size=256)
            )
        print(f"epoch {epoch + 1}  loss {curve[-1]:.4f}  accuracy {right / len(valid):.4f}")
        checkpoints.save(step, curve=curve)
    checkpoints.finish()
    return curve


if __name__ == "__main__":
    main()
