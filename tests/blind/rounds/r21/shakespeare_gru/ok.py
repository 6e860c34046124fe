"""Character-level GRU language model with truncated backpropagation through time."""
import math
import os
import time

import torch
import torch.nn as nn

ROOT = os.environ["TRUELOOP_DATA"]

config = {
    "chars": 150_000,
    "val_chars": 20_000,
    "streams": 40,
    "bptt": 32,
    "hidden": 80,
    "embed": 32,
    "lr": 6e-3,
    "epochs": 2,
    "clip": 1.0,
    "seed": 1,
}


class Corpus:
    def __init__(self, path, n_train, n_val):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        text = text[: n_train + n_val]
        self.alphabet = sorted(set(text))
        lookup = {c: i for i, c in enumerate(self.alphabet)}
        ids = torch.tensor([lookup[c] for c in text])
        self.train, self.val = ids[:n_train], ids[n_train:]


def batchify(ids, streams):
    """Cut one long text into parallel streams; time goes down the rows."""
    length = len(ids) // streams
    ids = ids[: length * streams]
    return ids.view(streams, length).t().contiguous()


def windows(grid, bptt):
    for i in range(0, len(grid) - 1, bptt):
        n = min(bptt, len(grid) - 1 - i)
        yield grid[i:i + n], grid[i + 1:i + 1 + n]


class CharGRU(nn.Module):
    def __init__(self, n_chars, embed, hidden):
        super().__init__()
        self.embed = nn.Embedding(n_chars, embed)
        self.gru = nn.GRU(embed, hidden)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, n_chars)

    def forward(self, ids, state=None):
        h, state = self.gru(self.embed(ids), state)
        return self.out(self.drop(h)), state


@torch.no_grad()
def bits_per_char(model, grid, bptt):
    model.eval()
    total, count, state = 0.0, 0, None
    for x, y in windows(grid, bptt):
        logits, state = model(x, state)
        total += nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum").item()
        count += y.numel()
    return total / count / math.log(2)


def main():
    torch.manual_seed(config["seed"])
    corpus = Corpus(os.path.join(ROOT, "tinyshakespeare", "input.txt"), config["chars"], config["val_chars"])
    train = batchify(corpus.train, config["streams"])
    val = batchify(corpus.val, config["streams"])
    model = CharGRU(len(corpus.alphabet), config["embed"], config["hidden"])
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    steps = config["epochs"] * math.ceil((len(train) - 1) / config["bptt"])
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    for epoch in range(config["epochs"]):
        start, state = time.time(), None
        model.train()
        total, count = 0.0, 0
        for i, (x, y) in enumerate(windows(train, config["bptt"])):
            if state is not None:
                state = state.detach()
            logits, state = model(x, state)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), config["clip"])
            optimizer.step()
            scheduler.step()
            total, count = total + loss.item(), count + 1
            if (i + 1) % 50 == 0:
                print(f"  epoch {epoch + 1} batch {i + 1} loss {total / count:.3f}")
                total, count = 0.0, 0
        bpc = bits_per_char(model, val, config["bptt"])
        print(f"epoch {epoch + 1} done in {time.time() - start:.1f}s, val bits per char {bpc:.3f}")

    print(f"final val bits per char {bits_per_char(model, val, config['bptt']):.4f}")


if __name__ == "__main__":
    main()
