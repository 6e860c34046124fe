"""A surrogate of a damped oscillator, trained in two sessions: the second resumes from the checkpoint."""

import math
import os

import torch
from torch import nn

SESSIONS, EPOCHS = 2, 60
CHECKPOINT = "session.pt"


def simulations(count, seed, noise=0.0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 4, generator=generator) * 2 - 1
    y = torch.exp(-x[:, :1]) * torch.sin(3 * x[:, 1:2] * x[:, 2:3] + 2 * x[:, 3:])
    return x, y + noise * torch.randn(count, 1, generator=generator)


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-2, weight_decay=1e-3)
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda epoch: min(1, (epoch + 1) / 5) * 0.5 * (1 + math.cos(math.pi * epoch / EPOCHS))
        )
        self.epoch = 0

    def save(self):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "lr_scheduler": self.lr_scheduler.state_dict(), "epoch": self.epoch}, CHECKPOINT)

    def load(self):
        state = torch.load(CHECKPOINT)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.lr_scheduler.load_state_dict(state["lr_scheduler"])
        self.epoch = state["epoch"]

    def run(self, until):
        x, y = simulations(2000, 1, noise=0.5)
        held_x, held_y = simulations(500, 2)
        while self.epoch < until:
            for rows in torch.randperm(len(x)).split(100):
                loss = nn.functional.mse_loss(self.model(x[rows]), y[rows])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.lr_scheduler.step()
            self.epoch += 1
            if self.epoch % 10 == 0:
                with torch.no_grad():
                    held = nn.functional.mse_loss(self.model(held_x), held_y)
                rate = self.optimizer.param_groups[0]["lr"]
                print(f"epoch {self.epoch} lr {rate:.5f} train {loss.item():.5f} held out {held.item():.5f}")


for session in range(SESSIONS):
    trainer = Trainer()
    if session and os.path.exists(CHECKPOINT):
        trainer.load()
    trainer.run(until=EPOCHS * (session + 1) // SESSIONS)
    trainer.save()
os.remove(CHECKPOINT)
