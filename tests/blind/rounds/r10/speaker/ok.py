"""Verification of newly enrolled speakers from filterbank features: margin softmax, EER on trials."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

N_SPEAKERS = 60
UTT_PER_SPEAKER = 24
FRAMES, MELS = 32, 20


def synthesise(seed=0):
    """Utterances = speaker timbre + session channel + phonetic content + noise."""
    rng = np.random.default_rng(seed)
    timbre_basis = rng.normal(size=(24, MELS))
    phones = rng.normal(size=(12, MELS)) * 1.3
    rows = []
    for spk in range(N_SPEAKERS):
        code = rng.normal(size=24)
        timbre = code @ timbre_basis / math.sqrt(24)
        reaction = rng.normal(size=(12, 1)) * 0.5
        for _ in range(UTT_PER_SPEAKER):
            channel = rng.normal(size=MELS) * 0.7
            seq = np.repeat(rng.integers(0, 12, size=FRAMES // 4), 4)
            content = phones[seq] * (1 + reaction[seq])
            frames = timbre + channel + content + rng.normal(size=(FRAMES, MELS)) * 0.8
            rows.append({"feats": frames.astype(np.float32), "speaker": spk})
    return rows


class Utterances(Dataset):
    def __init__(self, rows, label_of):
        self.rows = rows
        self.label_of = label_of

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return {"feats": torch.from_numpy(row["feats"]).T,
                "label": self.label_of[row["speaker"]]}


class Encoder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.frame = nn.Sequential(
            nn.Conv1d(MELS, 64, 5, padding=2), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 64, 3, padding=2, dilation=2), nn.BatchNorm1d(64), nn.ReLU(),
        )
        self.embed = nn.Linear(128, dim)

    def forward(self, x):
        h = self.frame(x)
        stats = torch.cat([h.mean(-1), h.std(-1)], dim=1)
        return F.normalize(self.embed(stats), dim=1)


class MarginSoftmax(nn.Module):
    def __init__(self, dim, n_classes, scale=16.0, margin=0.15):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_classes, dim) * 0.05)
        self.scale, self.margin = scale, margin

    def forward(self, emb, label):
        cos = emb @ F.normalize(self.weight, dim=1).T
        hot = F.one_hot(label, cos.shape[1])
        return F.cross_entropy(self.scale * (cos - self.margin * hot), label)


def equal_error_rate(scores, same):
    order = np.argsort(-scores)
    same = same[order]
    fa = np.cumsum(~same) / max((~same).sum(), 1)
    miss = 1 - np.cumsum(same) / max(same.sum(), 1)
    i = np.argmin(np.abs(fa - miss))
    return float((fa[i] + miss[i]) / 2)


class Trainer:
    def __init__(self, train_rows, val_rows, epochs=9):
        speakers = sorted({r["speaker"] for r in train_rows})
        label_of = {s: i for i, s in enumerate(speakers)}
        self.loader = DataLoader(Utterances(train_rows, label_of), batch_size=64,
                                 shuffle=True, drop_last=True)
        self.val_rows = val_rows
        self.encoder = Encoder()
        self.head = MarginSoftmax(64, len(speakers))
        params = list(self.encoder.parameters()) + list(self.head.parameters())
        self.opt = torch.optim.AdamW(params, lr=2e-3, weight_decay=1e-3)
        self.epochs = epochs
        self.sched = torch.optim.lr_scheduler.OneCycleLR(
            self.opt, max_lr=4e-3, total_steps=epochs * len(self.loader))

    def fit(self):
        for epoch in range(1, self.epochs + 1):
            self.encoder.train()
            total = 0.0
            for batch in self.loader:
                self.opt.zero_grad()
                loss = self.head(self.encoder(batch["feats"]), batch["label"])
                loss.backward()
                self.opt.step()
                self.sched.step()
                total += loss.item()
            print(f"epoch {epoch:2d}  train loss {total / len(self.loader):.4f}  "
                  f"val EER {self.eer(self.val_rows):.4f}")

    @torch.no_grad()
    def eer(self, rows, n_trials=4000):
        self.encoder.eval()
        feats = torch.from_numpy(np.stack([r["feats"] for r in rows])).transpose(1, 2)
        emb = torch.cat([self.encoder(chunk) for chunk in feats.split(256)])
        spk = np.array([r["speaker"] for r in rows])
        rng = np.random.default_rng(7)
        a = rng.integers(0, len(rows), n_trials)
        b = rng.integers(0, len(rows), n_trials)
        mates = [np.flatnonzero(spk == s) for s in range(N_SPEAKERS)]
        half = n_trials // 2
        b[:half] = [rng.choice(mates[spk[i]]) for i in a[:half]]
        keep = a != b
        a, b = a[keep], b[keep]
        scores = (emb[a] * emb[b]).sum(1).numpy()
        return equal_error_rate(scores, spk[a] == spk[b])


def split_rows(rows, val_fraction=0.2, seed=1):
    rng = np.random.default_rng(seed)
    speakers = rng.permutation(N_SPEAKERS)
    held = set(speakers[:int(val_fraction * N_SPEAKERS)].tolist())
    train = [r for r in rows if r["speaker"] not in held]
    val = [r for r in rows if r["speaker"] in held]
    return train, val


if __name__ == "__main__":
    torch.manual_seed(0)
    train_rows, val_rows = split_rows(synthesise())
    print(f"{len(train_rows)} train / {len(val_rows)} validation utterances")
    trainer = Trainer(train_rows, val_rows)
    trainer.fit()
    print(f"final validation EER {trainer.eer(val_rows):.4f}")
