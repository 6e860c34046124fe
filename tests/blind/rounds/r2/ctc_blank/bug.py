import numpy as np
import torch
import torch.nn as nn

NUM_DIGITS = 10
BLANK = NUM_DIGITS
FEATS = 20


class DigitSpeech:
    """every digit has a spectral template that is held for a few frames"""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.templates = np.random.default_rng(0).normal(0, 1, (NUM_DIGITS, FEATS))

    def utterance(self):
        labels = self.rng.integers(0, NUM_DIGITS, self.rng.integers(3, 7))
        frames = []
        for d in labels:
            hold = self.rng.integers(4, 8)
            frames.append(np.repeat(self.templates[d][None], hold, 0))
            frames.append(np.zeros((self.rng.integers(1, 4), FEATS)))
        feats = np.concatenate(frames)
        feats = feats + self.rng.normal(0, 0.4, feats.shape)
        return torch.tensor(feats, dtype=torch.float32), torch.tensor(labels)

    def batch(self, size):
        utts = [self.utterance() for _ in range(size)]
        feats = nn.utils.rnn.pad_sequence([u[0] for u in utts], batch_first=True)
        return (feats, torch.tensor([len(u[0]) for u in utts]),
                torch.cat([u[1] for u in utts]), torch.tensor([len(u[1]) for u in utts]))


class Recogniser(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.conv = nn.Conv1d(FEATS, hidden, 5, padding=2)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, NUM_DIGITS + 1)

    def forward(self, feats):
        h = torch.relu(self.conv(feats.transpose(1, 2))).transpose(1, 2)
        return self.out(self.rnn(h)[0]).log_softmax(-1)


def greedy(log_probs, lengths):
    hyps = []
    for row, n in zip(log_probs.argmax(-1), lengths):
        ids = torch.unique_consecutive(row[:n])
        hyps.append(ids[ids != BLANK].tolist())
    return hyps


def edit_distance(a, b):
    prev = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        cur = [i]
        for j, y in enumerate(b, 1):
            cur.append(min(prev[j] + 1, cur[-1] + 1, prev[j - 1] + (x != y)))
        prev = cur
    return prev[-1]


@torch.no_grad()
def label_error_rate(model, batches):
    model.eval()
    errors = total = 0
    for feats, flen, labels, llen in batches:
        for hyp, ref in zip(greedy(model(feats), flen), labels.split(llen.tolist())):
            errors += edit_distance(hyp, ref.tolist())
            total += len(ref)
    model.train()
    return errors / total


def main():
    torch.manual_seed(0)
    train, held_out = DigitSpeech(1), DigitSpeech(2)
    val_batches = [held_out.batch(40) for _ in range(3)]
    model = Recogniser()
    criterion = nn.CTCLoss(zero_infinity=True)
    opt = torch.optim.Adam(model.parameters(), lr=8e-3)
    for step in range(1, 121):
        feats, flen, labels, llen = train.batch(12)
        log_probs = model(feats).transpose(0, 1)
        loss = criterion(log_probs, labels, flen, llen)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        if step % 30 == 0:
            print(f"step {step} ctc {loss.item():.3f} digit error rate {label_error_rate(model, val_batches):.3f}")


if __name__ == "__main__":
    main()
