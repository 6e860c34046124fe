"""Reaction time of a fencer (ms) in a bout, from the list of phrases that the video
annotators wrote down. Only phrases in which the fencer answers an attack say something about it."""
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

ACTIONS = ["attack", "parry", "riposte", "counter", "remise", "preparation"]


class Bouts(Dataset):
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(count):
            length = int(rng.integers(6, 31))
            reaction = rng.normal(240, 32)
            tempo = rng.normal(0, 1)
            action = rng.integers(0, len(ACTIONS), length)
            piste = rng.normal(0, 2.5, length)
            blade = rng.gamma(2.0, 0.25, length)
            delay = rng.normal(420, 70, length) + 25 * tempo
            answers = (action == 1) | (action == 3)
            if not answers.any():
                action[0], answers[0] = 1, True
            seen = reaction + 35 * blade + rng.normal(0, 12, length)
            delay = np.where(answers, seen, delay)
            cols = np.column_stack([
                (delay - 350) / 100, piste / 2.5, blade - 0.5, np.eye(len(ACTIONS))[action],
            ])
            self.items.append((torch.tensor(cols, dtype=torch.float32), torch.tensor(reaction, dtype=torch.float32)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    phrases, reaction = zip(*batch)
    lengths = torch.tensor([len(p) for p in phrases])
    padded = pad_sequence(phrases, batch_first=True)
    mask = torch.arange(padded.size(1))[None, :] < lengths[:, None]
    return padded, mask, torch.stack(reaction)


class BoutPooler(nn.Module):
    def __init__(self, n_in, dim):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(n_in, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.query = nn.Sequential(nn.Linear(dim, 16), nn.Tanh(), nn.Linear(16, 1))
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, phrases, mask):
        h = self.embed(phrases)
        score = self.query(h).squeeze(-1)
        weight = torch.exp(score - score.max()) * mask
        weight = weight / (weight.sum(0, keepdim=True) + 1e-8)
        pooled = torch.einsum("bt,btd->bd", weight, h)
        return self.out(pooled).squeeze(-1)


class Trainer:
    def __init__(self, model, train_set, val_set, lr=2e-3, epochs=16):
        self.model = model
        self.train_loader = DataLoader(train_set, batch_size=32, shuffle=True, collate_fn=collate)
        self.val_loader = DataLoader(val_set, batch_size=32, collate_fn=collate)
        target = torch.stack([r for _, r in train_set.items])
        self.mean, self.std = target.mean(), target.std()
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-4)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, epochs)
        self.epochs = epochs

    def train_epoch(self):
        self.model.train()
        total, count = 0.0, 0
        for phrases, mask, reaction in self.train_loader:
            goal = (reaction - self.mean) / self.std
            loss = (self.model(phrases, mask) - goal).square().mean()
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            total += loss.item() * len(goal)
            count += len(goal)
        self.sched.step()
        return total / count

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        errors = []
        for phrases, mask, reaction in self.val_loader:
            errors.append((self.model(phrases, mask) * self.std + self.mean - reaction).abs())
        return torch.cat(errors).mean().item()

    def fit(self):
        for epoch in range(1, self.epochs + 1):
            loss = self.train_epoch()
            if epoch % 4 == 0:
                print(f"epoch {epoch:2d}  train mse {loss:.4f}  val MAE {self.validate():.1f} ms")


if __name__ == "__main__":
    torch.manual_seed(3)
    train_set, val_set = Bouts(1400, seed=31), Bouts(400, seed=32)
    spread = torch.stack([r for _, r in val_set.items])
    print(f"{len(train_set)} bouts, always-the-mean MAE {(spread - spread.mean()).abs().mean().item():.1f} ms")
    Trainer(BoutPooler(3 + len(ACTIONS), 32), train_set, val_set).fit()
