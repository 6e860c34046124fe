"""Speaker embeddings with a triplet loss; measured by finding the same voice among enrolled people never trained on."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

FRAMES, BANDS, LATENT = 10, 16, 8


class VoiceBank:
    """Voices: each person has a hidden timbre; every recording adds channel and phonetic variation."""

    def __init__(self, gen):
        self.gen = gen
        self.timbre = torch.randn(LATENT, BANDS, generator=gen) / LATENT ** 0.5
        self.channel = torch.randn(6, BANDS, generator=gen) / 6 ** 0.5

    def people(self, n):
        return torch.randn(n, LATENT, generator=self.gen)

    def record(self, person):
        n = len(person)
        base = torch.tanh(person @ self.timbre)[:, None]
        chan = (1.3 * torch.randn(n, 6, generator=self.gen) @ self.channel)[:, None]
        phon = 0.8 * torch.randn(n, FRAMES, BANDS, generator=self.gen)
        return base + chan + phon


class Embedder(nn.Module):
    def __init__(self, out=24):
        super().__init__()
        self.frame = nn.Sequential(nn.Linear(BANDS, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.proj = nn.Linear(64, out)

    def forward(self, x):
        return F.normalize(self.proj(self.frame(x).mean(1)), dim=-1)


def triplet_loss(anchor, positive, margin):
    """Hardest negative of the batch for every anchor."""
    dist = torch.cdist(anchor, positive)
    same = dist.diagonal()
    others = dist + 10.0 * torch.eye(len(dist))
    hardest = others.topk(8, dim=1, largest=False).values.mean(1)
    return F.relu(same - hardest + margin).mean()


@torch.no_grad()
def recall_at_1(model, bank, people):
    model.eval()
    enrolled = model(bank.record(people))
    probe = model(bank.record(people))
    nearest = torch.cdist(probe, enrolled).argmin(1)
    return (nearest == torch.arange(len(people))).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=900)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--margin", type=float, default=0.3)
    p.add_argument("--lr", type=float, default=3e-3)
    a = p.parse_args()

    torch.manual_seed(8)
    bank = VoiceBank(torch.Generator().manual_seed(8))
    train_people = bank.people(1500)
    valid_people = bank.people(100)

    model = Embedder()
    opt = torch.optim.Adam(model.parameters(), lr=a.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=a.lr, total_steps=a.steps)
    running = 0.0
    for step in range(1, a.steps + 1):
        model.train()
        who = train_people[torch.randperm(len(train_people))[:a.batch]]
        anchor, positive = model(bank.record(who)), model(bank.record(who))
        loss = triplet_loss(anchor, positive, a.margin)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        running += loss.item()
        if step % 150 == 0:
            print(f"step {step}: loss {running / 150:.4f}  recall@1 {recall_at_1(model, bank, valid_people):.3f}")
            running = 0.0
    final = sum(recall_at_1(model, bank, valid_people) for _ in range(5)) / 5
    print(f"recall@1 on new voices: {final:.4f}")


if __name__ == "__main__":
    main()
