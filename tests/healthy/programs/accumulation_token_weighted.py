"""Gradient accumulation done right: sums over tokens of the whole window divided once, a partial last window, warm
restarts."""

import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(23)
VOCAB, PAD, WINDOW, MICRO = 20, 0, 4, 8


def document():
    start, stride = int(torch.randint(1, VOCAB, (1,))), int(torch.randint(1, 3, (1,)))
    return torch.tensor([(start + i * stride) % (VOCAB - 1) + 1 for i in range(int(torch.randint(5, 16, (1,))))])


documents = [document() for _ in range(144)]


def micro_batches():
    order = torch.randperm(len(documents)).tolist()
    for chunk in (
        itertools.batched(order, MICRO) if hasattr(itertools, "batched") else zip(*[iter(order)] * MICRO, strict=True)
    ):
        yield nn.utils.rnn.pad_sequence([documents[i] for i in chunk], batch_first=True, padding_value=PAD)


def windows():
    batches = micro_batches()
    while window := list(itertools.islice(batches, WINDOW)):
        yield window


class CausalModel(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.conv1 = nn.Conv1d(d, d, 2)
        self.conv2 = nn.Conv1d(d, d, 2)
        self.head = nn.Linear(d, VOCAB)

    def forward(self, ids):
        h = self.embed(ids).transpose(1, 2)
        h = h + F.gelu(self.conv1(F.pad(h, (1, 0))))
        h = h + F.gelu(self.conv2(F.pad(h, (1, 0))))
        return self.head(h.transpose(1, 2))


model = CausalModel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=5, T_mult=2, eta_min=0.01)
step = 0
for epoch in range(6):
    for window in windows():
        tokens = sum(int((ids[:, 1:] != PAD).sum()) for ids in window)
        total = 0.0
        for ids in window:
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD, reduction="sum")
            (loss / tokens).backward()
            total += loss.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        scheduler.step()
        step += 1
    print(f"epoch {epoch}, step {step}: {total / tokens:.3f} per token, norm {norm.item():.3f}")

# the other common spelling: the counter runs on, the rest of the epoch is stepped as well
batches = list(micro_batches())
for i, ids in enumerate(batches):
    size = min(WINDOW, len(batches) - i // WINDOW * WINDOW)
    loss = F.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:], ignore_index=PAD) / size
    loss.backward()
    if (i + 1) % WINDOW == 0 or i + 1 == len(batches):
        optimizer.step()
        optimizer.zero_grad()
print("mean per micro-batch", loss.item() * size)
