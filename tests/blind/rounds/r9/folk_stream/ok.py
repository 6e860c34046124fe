"""LSTM over a long stream of folk-tune notes, trained with truncated backpropagation."""
import math
import random

import torch
from torch import nn

SEED = 8
STREAMS = 16
BPTT = 32
EPOCHS = 6
SCALE = [0, 2, 4, 5, 7, 9, 11, 12, 14, 16]
BAR, END = len(SCALE), len(SCALE) + 1
VOCAB = len(SCALE) + 2


def compose_tune(rng):
    """AABA of four-note motifs walking along the scale, with bar tokens."""
    def phrase():
        pos, notes = rng.randrange(len(SCALE)), []
        motif = [rng.choice([-1, 1, 1, 2, -2]) for _ in range(3)]
        for _ in range(4):
            notes.append(pos)
            for step in motif:
                pos = min(max(pos + step, 0), len(SCALE) - 1)
                notes.append(pos)
            pos = (pos + rng.choice([-1, 1])) % len(SCALE)
            notes.append(BAR)
        return notes

    a, b = phrase(), phrase()
    return a + a + b + a + [END]


def corpus(n_tunes, rng):
    return torch.tensor([tok for _ in range(n_tunes) for tok in compose_tune(rng)])


def batchify(stream, n_streams):
    """Cut the corpus into parallel streams; time runs along dim 0, streams along dim 1."""
    usable = len(stream) // n_streams * n_streams
    return stream[:usable].view(n_streams, -1).t().contiguous()


class NoteLSTM(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 24)
        self.rnn = nn.LSTM(24, hidden)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, VOCAB)

    def forward(self, notes, state=None):
        h, state = self.rnn(self.embed(notes), state)
        return self.out(self.drop(h)), state


def detach(state):
    return tuple(s.detach() for s in state)


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    state, total, count = None, 0.0, 0
    for i in range(0, len(data) - 1, BPTT):
        y = data[i + 1:i + 1 + BPTT]
        x = data[i:i + len(y)]
        logits, state = model(x, state)
        total += nn.functional.cross_entropy(logits.reshape(-1, VOCAB), y.reshape(-1), reduction="sum").item()
        count += y.numel()
    return total / count


def main():
    torch.manual_seed(SEED)
    rng = random.Random(SEED)
    train = batchify(corpus(300, rng), STREAMS)
    valid = batchify(corpus(20, rng), 1)
    print(f"train {tuple(train.shape)} valid {tuple(valid.shape)}")

    model = NoteLSTM()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    steps = math.ceil((len(train) - 1) / BPTT)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=8e-3, total_steps=EPOCHS * steps)
    for epoch in range(EPOCHS):
        model.train()
        state, total, count = None, 0.0, 0
        for i in range(0, len(train) - 1, BPTT):
            y = train[i + 1:i + 1 + BPTT]
            x = train[i:i + len(y)]
            logits, state = model(x, state)
            state = detach(state)
            loss = nn.functional.cross_entropy(logits.reshape(-1, VOCAB), y.reshape(-1))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            sched.step()
            total += loss.item() * y.numel()
            count += y.numel()
        val = evaluate(model, valid)
        print(f"epoch {epoch} train nll {total / count:.3f} val nll {val:.3f} val ppl {math.exp(val):.2f}")


if __name__ == "__main__":
    main()
