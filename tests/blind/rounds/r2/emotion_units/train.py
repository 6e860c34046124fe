import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(44)


def load(path):
    blob = np.load(path)
    return (torch.tensor(blob["prosody"].astype(np.float32)), torch.tensor(blob["emotion"].astype(np.int64)),
            torch.tensor(blob["duration"]))


class SpeechTasks(nn.Module):
    def __init__(self, n_in=24, width=48):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.emotion = nn.Linear(width, 5)
        self.duration = nn.Linear(width, 1)

    def forward(self, x):
        h = self.shared(x)
        return self.emotion(h), self.duration(h).squeeze(-1)


class Trainer:
    def __init__(self, folder, lr=3e-3, batch=50):
        self.train_data, self.val_data = load(f"{folder}/train.npz"), load(f"{folder}/val.npz")
        self.model = SpeechTasks()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.batch = batch

    def losses(self, x, emotion, duration):
        logits, predicted = self.model(x)
        return F.cross_entropy(logits, emotion), F.mse_loss(predicted, duration), logits, predicted

    def epoch(self):
        self.model.train()
        x, e, d = self.train_data
        for idx in torch.randperm(len(x)).split(self.batch):
            loss_e, loss_d, _, _ = self.losses(x[idx], e[idx], d[idx])
            self.opt.zero_grad()
            (loss_e + loss_d).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.opt.step()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        x, e, d = self.val_data
        loss_e, loss_d, logits, predicted = self.losses(x, e, d)
        r2 = 1 - loss_d.item() / d.var(correction=0).item()
        return loss_e.item(), (logits.argmax(1) == e).float().mean().item(), r2


trainer = Trainer(sys.argv[1])
for epoch in range(8):
    trainer.epoch()
    ce, acc, r2 = trainer.validate()
    print(f"epoch {epoch} emotion loss {ce:.3f} accuracy {acc:.3f} duration R2 {r2:.3f}")
