"""Keyword spotting on synthetic one-second utterances (formant sequences)."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SR, N_FFT, HOP = 4000, 128, 64
VOWELS = {"a": (730, 1090), "e": (530, 1640), "i": (280, 1900), "o": (570, 840), "u": (310, 870)}


def keyword_list(n, rng):
    keys = sorted(VOWELS)
    words = set()
    while len(words) < n:
        words.add("".join(rng.choice(keys, 3)))
    return sorted(words)


def utter(word, rng, n=2400):
    t = np.arange(n) / SR
    pitch = rng.uniform(0.88, 1.12)
    cuts = np.sort(rng.uniform(0.28, 0.38) + np.array([0, rng.uniform(0.28, 0.36)]))
    pos = t / t[-1]
    wave = np.zeros(n)
    for k, v in enumerate(word):
        lo = 0.0 if k == 0 else cuts[k - 1]
        hi = 1.0 if k == 2 else cuts[k]
        env = 1 / (1 + np.exp(-(pos - lo) * 60)) / (1 + np.exp((pos - hi) * 60))
        for amp, f in zip((1.0, 0.7), VOWELS[v]):
            wave += amp * env * np.sin(2 * np.pi * f * pitch * t + rng.uniform(0, 6.28))
    wave = np.roll(wave, rng.integers(-150, 150)) * rng.uniform(0.3, 1.0)
    return (wave + rng.normal(0, 0.25, n)).astype(np.float32)


def build(words, per_word, rng):
    x = np.stack([utter(w, rng) for w in words for _ in range(per_word)])
    y = np.repeat(np.arange(len(words)), per_word)
    return torch.from_numpy(x), torch.from_numpy(y)


def log_spec(wave):
    spec = torch.stft(wave, N_FFT, HOP, window=torch.hann_window(N_FFT), return_complex=True).abs()
    return torch.log(spec ** 2 + 1e-3)


class KeywordNet(nn.Module):
    def __init__(self, n_words, n_bins=N_FFT // 2 + 1, width=48):
        super().__init__()
        self.conv1 = nn.Conv1d(n_bins, width, 5, padding=2)
        self.bn1 = nn.BatchNorm1d(width)
        self.conv2 = nn.Conv1d(width, width, 5, padding=2)
        self.bn2 = nn.BatchNorm1d(width)
        self.fc = nn.Linear(width * 9, n_words)

    def forward(self, x):
        x = F.max_pool1d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool1d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc(F.dropout(x.flatten(1), 0.2, self.training))


def evaluate(net, x, y):
    net.eval()
    with torch.no_grad():
        out = torch.cat([net(b) for b in x.split(200)])
    return (out.argmax(1) == y).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--words", type=int, default=30)
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--batch", type=int, default=50)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    rng = np.random.default_rng(a.seed)
    words = keyword_list(a.words, rng)
    x_tr, y_tr = build(words, 60, rng)
    x_va, y_va = build(words, 15, rng)
    x_tr, x_va = log_spec(x_tr), log_spec(x_va)
    mean, std = x_tr.mean((0, 2), keepdim=True), x_tr.std((0, 2), keepdim=True)
    x_tr, x_va = (x_tr - mean) / std, (x_va - mean) / std

    net = KeywordNet(a.words)
    opt = torch.optim.SGD(net.parameters(), lr=a.lr, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, a.epochs)
    for epoch in range(a.epochs):
        net.train()
        perm, total = torch.randperm(len(x_tr)), 0.0
        for idx in perm.split(a.batch):
            loss = F.cross_entropy(net(x_tr[idx]), y_tr[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        print(f"epoch {epoch:2d}  loss {total / len(x_tr):.4f}  val acc {evaluate(net, x_va, y_va):.4f}")
    print(f"final accuracy on {a.words} keywords: {evaluate(net, x_va, y_va):.4f}")


if __name__ == "__main__":
    main()
