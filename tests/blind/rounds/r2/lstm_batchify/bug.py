import argparse, os

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--corpus", default=os.environ["TRUELOOP_DATA"] + "/tinyshakespeare/input.txt")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--bptt", type=int, default=32)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=6e-3)
parser.add_argument("--seed", type=int, default=7)
args = parser.parse_args()
torch.manual_seed(args.seed)


def batchify(ids, bsz):
    """(time, batch): each column is a contiguous stretch of the corpus"""
    n = ids.numel() // bsz
    return ids[:n * bsz].view(n, bsz).contiguous()


def windows(stream, bptt):
    for i in range(0, stream.size(0) - 1, bptt):
        length = min(bptt, stream.size(0) - 1 - i)
        yield stream[i:i + length], stream[i + 1:i + 1 + length]


class CharLSTM(nn.Module):
    def __init__(self, vocab, emb=48, hidden=128):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        self.lstm = nn.LSTM(emb, hidden)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x, state):
        h, state = self.lstm(self.embed(x), state)
        return self.out(self.drop(h)), state


def evaluate(model, stream):
    model.eval()
    state, total, count = None, 0.0, 0
    with torch.no_grad():
        for x, y in windows(stream, args.bptt):
            logits, state = model(x, state)
            total += nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum").item()
            count += y.numel()
    return total / count


def main():
    text = open(args.corpus).read()[:56_000]
    vocab = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([vocab[c] for c in text])
    train = batchify(ids[:50_000], args.batch_size)
    valid = batchify(ids[50_000:], args.batch_size)
    model = CharLSTM(len(vocab))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        state, running, seen = None, 0.0, 0
        for x, y in windows(train, args.bptt):
            if state is not None:
                state = tuple(s.detach() for s in state)
            logits, state = model(x, state)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            running += loss.item() * y.numel()
            seen += y.numel()
        print(f"epoch {epoch} train {running / seen:.3f} valid {evaluate(model, valid):.3f} nats/char")


if __name__ == "__main__":
    main()
