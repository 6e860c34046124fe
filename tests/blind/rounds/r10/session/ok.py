"""Next-item prediction from click sessions with a GRU over packed sequences."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader


@dataclass
class Config:
    n_items: int = 200
    n_groups: int = 20
    n_train: int = 6000
    n_val: int = 1000
    dim: int = 48
    hidden: int = 64
    batch_size: int = 64
    epochs: int = 5
    lr: float = 2e-3
    seed: int = 11


def make_sessions(cfg, rng, n):
    """Sessions stay mostly in one category; each item has a few preferred followers."""
    per = cfg.n_items // cfg.n_groups
    follow = np.random.default_rng(99).permuted(np.tile(np.arange(per), (cfg.n_items, 1)), axis=1)[:, :3]
    probs = np.array([0.6, 0.25, 0.15])
    out = []
    for _ in range(n):
        length = int(rng.integers(3, 16))
        item = int(rng.integers(cfg.n_items))
        seq = [item]
        for _ in range(length):
            if rng.random() < 0.08:
                item = int(rng.integers(cfg.n_items))
            else:
                group = item // per
                item = int(group * per + follow[item, rng.choice(3, p=probs)])
            seq.append(item)
        out.append((seq[:-1], seq[-1]))
    return out


def collate(batch):
    batch = sorted(batch, key=lambda r: len(r[0]), reverse=True)
    targets = torch.tensor([b[1] for b in batch])
    seqs = [torch.tensor(b[0]) for b in batch]
    return {"items": pack_sequence(seqs), "target": targets}


class GRURec(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.n_items, cfg.dim)
        self.gru = nn.GRU(cfg.dim, cfg.hidden, batch_first=True)
        self.out = nn.Linear(cfg.hidden, cfg.n_items)

    def forward(self, packed):
        emb = nn.utils.rnn.PackedSequence(self.emb(packed.data), packed.batch_sizes,
                                          packed.sorted_indices, packed.unsorted_indices)
        _, h = self.gru(emb)
        return self.out(h[-1])


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        rng = np.random.default_rng(cfg.seed)
        train = make_sessions(cfg, rng, cfg.n_train)
        val = make_sessions(cfg, rng, cfg.n_val)
        self.train_loader = DataLoader(train, cfg.batch_size, shuffle=True, collate_fn=collate)
        self.val_loader = DataLoader(val, 250, collate_fn=collate)
        self.model = GRURec(cfg)
        self.loss = nn.CrossEntropyLoss()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)

    def fit(self):
        for epoch in range(self.cfg.epochs):
            self.model.train()
            running = []
            for batch in self.train_loader:
                self.opt.zero_grad(set_to_none=True)
                loss = self.loss(self.model(batch["items"]), batch["target"])
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
                self.opt.step()
                running.append(loss.item())
            recall, mrr = self.validate()
            print(f"[{epoch + 1}/{self.cfg.epochs}] loss={np.mean(running):.4f} "
                  f"recall@5={recall:.4f} mrr={mrr:.4f}")

    @torch.no_grad()
    def validate(self, k=5):
        self.model.eval()
        hits, rr, n = 0, 0.0, 0
        for batch in self.val_loader:
            scores = self.model(batch["items"])
            own = scores.gather(1, batch["target"][:, None])
            rank = (scores > own).sum(1) + 1
            hits += (rank <= k).sum().item()
            rr += (1.0 / rank).sum().item()
            n += len(rank)
        return hits / n, rr / n


if __name__ == "__main__":
    torch.set_num_threads(1)
    cfg = Config()
    torch.manual_seed(cfg.seed)
    Trainer(cfg).fit()
