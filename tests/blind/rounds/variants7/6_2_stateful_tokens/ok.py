"""LSTM language model over controller event codes, truncated back-propagation with carried state."""
import math
import random
from types import SimpleNamespace

import torch
from torch import nn

cfg = SimpleNamespace(codes=30, streams=16, bptt=24, hidden=64, emb=24, lr=5e-3, epochs=6, seed=19)


def event_stream(n, rng):
    routines = [random.Random(r).sample(range(cfg.codes), 7) for r in range(8)]
    events = []
    while len(events) < n:
        routine = rng.choice(routines)
        for code in routine:
            if rng.random() < 0.08:
                events.append(rng.randrange(cfg.codes))
            events.append(code)
    return torch.tensor(events[:n])


def batchify(events, n_streams):
    usable = len(events) // n_streams * n_streams
    return events[:usable].view(n_streams, -1).t().contiguous()


class EventLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(cfg.codes, cfg.emb)
        self.lstm = nn.LSTM(cfg.emb, cfg.hidden)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(cfg.hidden, cfg.codes)

    def forward(self, tokens, state=None):
        h, state = self.lstm(self.drop(self.emb(tokens)), state)
        return self.out(self.drop(h)), state


def segments(data):
    for start in range(0, len(data) - 1, cfg.bptt):
        stop = min(start + cfg.bptt, len(data) - 1)
        yield data[start:stop], data[start + 1:stop + 1]


def train_epoch(model, opt, data):
    model.train()
    state, total, count = None, 0.0, 0
    for x, y in segments(data):
        if state is not None:
            state = tuple(s.detach() for s in state)
        logits, state = model(x, state)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item() * y.numel()
        count += y.numel()
    return total / count


@torch.no_grad()
def evaluate(model, events):
    model.eval()
    logits, _ = model(events[:-1, None])
    return nn.functional.cross_entropy(logits[:, 0], events[1:]).item()


def main():
    torch.manual_seed(cfg.seed)
    rng = random.Random(cfg.seed)
    events = event_stream(34000, rng)
    train, test = events[:30000], events[30000:]
    model = EventLM()
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    data = batchify(train, cfg.streams)
    print("training array", tuple(data.shape))
    for epoch in range(cfg.epochs):
        loss = train_epoch(model, opt, data)
        print(f"epoch {epoch} train perplexity {math.exp(loss):.3f}")
    print(f"test_perplexity={math.exp(evaluate(model, test)):.4f}")


if __name__ == "__main__":
    main()
