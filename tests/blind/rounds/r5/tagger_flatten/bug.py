"""Tag tokens of synthetic commands: O, CITY, DATE, AMOUNT. The tag depends on the previous word."""
import numpy as np
import torch
from torch import nn

TAGS = ["O", "CITY", "DATE", "AMOUNT"]
VOCAB, LENGTH, PAD = 60, 16, -100


def corpus(n, rng):
    tokens = np.zeros((n, LENGTH), dtype=np.int64)
    tags = np.full((n, LENGTH), PAD, dtype=np.int64)
    for i in range(n):
        length = rng.integers(8, LENGTH + 1)
        tokens[i, :length] = rng.integers(1, VOCAB, length)
        for t in range(length):
            before = tokens[i, t - 1] if t else 0
            tags[i, t] = 1 + before % 3 if 0 < before < 13 else 0
    return torch.from_numpy(tokens), torch.from_numpy(tags)


class Tagger(nn.Module):
    def __init__(self, dim=24, hidden=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.lstm = nn.LSTM(dim, hidden, bidirectional=True)
        self.proj = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, tokens):
        h, _ = self.lstm(self.embed(tokens.t()))
        return self.proj(h)


def tag_loss(logits, tags):
    return nn.functional.cross_entropy(logits.reshape(-1, len(TAGS)), tags.reshape(-1), ignore_index=PAD)


@torch.no_grad()
def slot_f1(model, tokens, tags):
    model.eval()
    pred = model(tokens).argmax(2).t()
    real = tags != PAD
    hit = ((pred == tags) & (tags > 0) & real).sum().item()
    found, gold = ((pred > 0) & real).sum().item(), ((tags > 0) & real).sum().item()
    precision, recall = hit / max(found, 1), hit / max(gold, 1)
    return 2 * precision * recall / max(precision + recall, 1e-9)


def main():
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    train_tokens, train_tags = corpus(1200, rng)
    dev_tokens, dev_tags = corpus(300, rng)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
    for epoch in range(7):
        model.train()
        total, batches = 0.0, 0
        for idx in torch.randperm(len(train_tokens)).split(40):
            optimizer.zero_grad()
            loss = tag_loss(model(train_tokens[idx]), train_tags[idx])
            loss.backward()
            optimizer.step()
            total += loss.item()
            batches += 1
        scheduler.step()
        print(f"epoch {epoch} loss {total / batches:.4f} dev slot f1 {slot_f1(model, dev_tokens, dev_tags):.3f}")
    print(f"dev slot f1 {slot_f1(model, dev_tokens, dev_tags):.3f}")


if __name__ == "__main__":
    main()
