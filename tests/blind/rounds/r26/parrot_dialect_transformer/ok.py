"""Home roost of parrots from the syllables of a contact call (small transformer).

The night queue gives short slots. Every slot builds everything anew, takes up the checkpoint, works its
share of steps and writes the checkpoint again.
"""
import os
import tempfile

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
SYLLABLES, LENGTH, ROOSTS = 40, 14, 8
CALLS, BATCH, SLOTS, STEPS_PER_SLOT = 5000, 56, 30, 10


def calls(n, seed):
    """A call is a row of phrases of two syllables; every roost has its own phrases, birds also borrow from others."""
    book = np.random.default_rng(99).integers(0, SYLLABLES, (ROOSTS, 30, 2))
    rng = np.random.default_rng(seed)
    roost = rng.integers(0, ROOSTS, n)
    voice = np.where(rng.random((n, LENGTH // 2)) < 0.6, roost[:, None], rng.integers(0, ROOSTS, (n, LENGTH // 2)))
    phrase = book[voice, rng.integers(0, 30, voice.shape)].reshape(n, LENGTH)
    return torch.from_numpy(phrase), torch.from_numpy(roost)


class CallNet(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.syllable = nn.Embedding(SYLLABLES, width)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.pair = nn.Conv1d(width, width, 2, padding=1)
        self.block = nn.TransformerEncoderLayer(width, heads, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, ROOSTS))

    def forward(self, s):
        e = self.syllable(s) + self.place
        e = e + torch.relu(self.pair(e.transpose(1, 2)))[:, :, 1:].transpose(1, 2)
        return self.out(self.block(e).mean(1))


class Feed:
    """Walks through the calls in a shuffled order, a new order when all were seen."""

    def __init__(self, n, seed):
        self.n, self.dice = n, torch.Generator().manual_seed(seed)
        self.order, self.at = torch.randperm(n, generator=self.dice), 0

    def take(self, k):
        if self.at + k > self.n:
            self.order, self.at = torch.randperm(self.n, generator=self.dice), 0
        self.at += k
        return self.order[self.at - k:self.at]


def work_slot(path, data, check):
    torch.manual_seed(17)
    net = CallNet()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    total = SLOTS * STEPS_PER_SLOT
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 30) * max(0.05, 1 - s / total))
    feed = Feed(len(data[0]), seed=17)
    step = 0
    if os.path.exists(path):
        kept = torch.load(path, weights_only=True)
        net.load_state_dict(kept["net"])
        opt.load_state_dict(kept["opt"])
        sched.load_state_dict(kept["sched"])
        feed.order, feed.at = kept["order"], kept["at"]
        feed.dice.set_state(kept["dice"])
        torch.set_rng_state(kept["rng"])
        step = kept["step"]

    net.train()
    running = 0.0
    for _ in range(STEPS_PER_SLOT):
        i = feed.take(BATCH)
        loss = nn.functional.cross_entropy(net(data[0][i]), data[1][i])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        sched.step()
        step += 1
        running += loss.item()

    torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "step": step,
                "order": feed.order, "at": feed.at, "dice": feed.dice.get_state(),
                "rng": torch.get_rng_state()}, path)
    if step % 50 == 0:
        net.eval()
        with torch.no_grad():
            logits = net(check[0])
        hit = (logits.argmax(1) == check[1]).float().mean().item()
        ce = nn.functional.cross_entropy(logits, check[1]).item()
        print(f"step {step:4d}  loss {running / STEPS_PER_SLOT:.3f}  check calls: loss {ce:.3f}  accuracy {hit:.3f}")


def main():
    data, check = calls(CALLS, 1), calls(1000, 2)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(SLOTS):
            work_slot(os.path.join(folder, "slot.pt"), data, check)


if __name__ == "__main__":
    main()
