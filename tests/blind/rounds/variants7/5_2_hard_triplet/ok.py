"""Speaker embeddings with a batch-hard triplet loss; evaluated on unseen speakers."""
import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn


class SpeakerBank:
    """Utterance statistics: speaker traits and session effects mixed into 40 coefficients."""

    def __init__(self, n_speakers, n_utterances, seed):
        g = torch.Generator().manual_seed(seed)
        mix = torch.randn(26, 40, generator=torch.Generator().manual_seed(404)) / 4
        traits = torch.randn(n_speakers, 1, 10, generator=g)
        session = 1.6 * torch.randn(n_speakers, n_utterances, 16, generator=g)
        jitter = 0.3 * torch.randn(n_speakers, n_utterances, 10, generator=g)
        self.x = torch.tanh(torch.cat([traits + jitter, session], dim=2) @ mix)
        self.n_speakers, self.n_utterances = n_speakers, n_utterances

    def normalize(self, mean, std):
        self.x = (self.x - mean) / std

    def episode(self, p, k):
        rows, labels = [], []
        for s in random.sample(range(self.n_speakers), p):
            for u in random.sample(range(self.n_utterances), k):
                rows.append(self.x[s, u])
                labels.append(s)
        return torch.stack(rows), torch.tensor(labels)

    def flat(self):
        labels = torch.arange(self.n_speakers).repeat_interleave(self.n_utterances)
        return self.x.flatten(0, 1), labels


class VoiceNet(nn.Module):
    def __init__(self, n_in=40, dim=24):
        super().__init__()
        self.fc1 = nn.Linear(n_in, 128)
        self.fc2 = nn.Linear(128, dim)

    def forward(self, x):
        return F.normalize(self.fc2(F.relu(self.fc1(x))), dim=-1)


def pairwise(e):
    return (2 - 2 * e @ e.T).clamp(min=1e-8).sqrt()


def batch_hard(e, labels, margin):
    d = pairwise(e)
    same = labels[:, None] == labels[None, :]
    hardest_pos = (d * same).max(dim=1).values
    hardest_neg = (d + 1e3 * same).min(dim=1).values
    return F.relu(hardest_pos - hardest_neg + margin).mean()


@torch.no_grad()
def precision_at_1(model, bank):
    model.eval()
    x, labels = bank.flat()
    d = pairwise(model(x))
    d.fill_diagonal_(float("inf"))
    return (labels[d.argmin(1)] == labels).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=450)
    ap.add_argument("--speakers", type=int, default=12)
    ap.add_argument("--per-speaker", type=int, default=4)
    ap.add_argument("--margin", type=float, default=0.3)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(17)
    random.seed(17)
    train, test = SpeakerBank(120, 10, seed=1), SpeakerBank(60, 6, seed=2)
    mean, std = train.x.mean((0, 1)), train.x.std((0, 1))
    train.normalize(mean, std)
    test.normalize(mean, std)
    model = VoiceNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    running = 0.0
    for step in range(1, args.steps + 1):
        model.train()
        x, labels = train.episode(args.speakers, args.per_speaker)
        loss = batch_hard(model(x), labels, args.margin)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()
        if step % 90 == 0:
            print(f"step {step:4d} loss {running / 90:.4f}")
            running = 0.0
    print(f"precision_at_1={precision_at_1(model, test):.4f}")


if __name__ == "__main__":
    main()
