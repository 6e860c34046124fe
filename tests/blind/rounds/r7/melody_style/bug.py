"""Which tradition does a tune come from?  Recurrent classifier on pitch sequences."""
import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

STYLES = {
    "jig": [0, 2, 4, 5, 7, 9, 11],
    "raga": [0, 1, 4, 5, 7, 8, 11],
    "blues": [0, 3, 5, 6, 7, 10],
    "gamelan": [0, 2, 3, 7, 8],
}


def compose(scale, rng):
    n = int(rng.integers(14, 29))
    degree, tune = int(rng.integers(len(scale))), []
    key = int(rng.integers(0, 2))
    for _ in range(n):
        degree = int(np.clip(degree + rng.integers(-2, 3), 0, 2 * len(scale) - 1))
        pitch = scale[degree % len(scale)] + 12 * (degree // len(scale)) + key
        if rng.random() < 0.05:
            pitch += int(rng.choice([-1, 1]))
        tune.append(pitch + 4)
    return torch.tensor(tune)


def tunebook(n, seed):
    rng = np.random.default_rng(seed)
    scales = list(STYLES.values())
    labels = rng.integers(0, len(scales), n)
    return [(compose(scales[k], rng), int(k)) for k in labels]


def collate(batch):
    tunes, labels = zip(*batch)
    lengths = torch.tensor([len(t) for t in tunes])
    return pad_sequence(tunes, batch_first=True), lengths, torch.tensor(labels)


class StyleNet(nn.Module):
    def __init__(self, n_pitch=32, emb=16, hidden=40, n_styles=4):
        super().__init__()
        self.emb = nn.Embedding(n_pitch, emb, padding_idx=0)
        self.rnn = nn.GRU(emb, hidden, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.cls = nn.Linear(hidden, n_styles)

    def forward(self, tunes, lengths):
        packed = pack_padded_sequence(self.emb(tunes), lengths, batch_first=True, enforce_sorted=False)
        _, h = self.rnn(packed)
        return self.cls(self.drop(h[-1]))


def run_epoch(net, loader, loss_fn, opt=None):
    net.train(opt is not None)
    total = right = seen = 0
    with torch.set_grad_enabled(opt is not None):
        for tunes, lengths, labels in loader:
            logits = net(tunes, lengths)
            loss = loss_fn(logits, labels)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                opt.step()
            total += loss.item() * len(labels)
            right += (logits.argmax(1) == labels).sum().item()
            seen += len(labels)
    return total / seen, right / seen


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--max-lr", type=float, default=1e-2)
    ap.add_argument("--seed", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(args.seed)

    train_dl = DataLoader(tunebook(900, 1), batch_size=32, shuffle=True, collate_fn=collate)
    val_dl = DataLoader(tunebook(400, 2), batch_size=100, collate_fn=collate)
    net = StyleNet()
    loss_fn = nn.CrossEntropyLoss()
    opt = torch.optim.AdamW(net.parameters(), lr=args.max_lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(
        opt, max_lr=args.max_lr, total_steps=args.epochs * len(train_dl))
    for epoch in range(args.epochs):
        tr_loss, tr_acc = run_epoch(net, train_dl, loss_fn, opt)
        sched.step()
        va_loss, va_acc = run_epoch(net, val_dl, loss_fn)
        print(f"{epoch:2d} train {tr_loss:.3f}/{tr_acc:.3f} val {va_loss:.3f}/{va_acc:.3f}")


if __name__ == "__main__":
    main()
