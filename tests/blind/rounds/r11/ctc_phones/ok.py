# small phone recogniser: strided conv front end, GRU, CTC
import torch
import torch.nn as nn
import torch.nn.functional as F
import numpy as np

PHONES = ["ah", "n", "t", "ih", "s", "d", "l", "k"]
BLANK = len(PHONES)                       # blank sits after the phones
stoi = {p: i for i, p in enumerate(PHONES)}
MEL = 20


class Utterances(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        tpl = np.random.default_rng(99).normal(0, 1, (len(PHONES), MEL))
        probs = 1 / np.arange(1, len(PHONES) + 1) ** 0.7
        probs /= probs.sum()
        self.items = []
        for _ in range(n):
            seq = rng.choice(PHONES, size=rng.integers(3, 8), p=probs)
            frames = [rng.normal(0, 0.5, (rng.integers(2, 5), MEL))]
            for p in seq:
                frames.append(tpl[stoi[p]] + rng.normal(0, 1.3, (rng.integers(5, 9), MEL)))
                frames.append(rng.normal(0, 0.5, (rng.integers(2, 5), MEL)))
            x = torch.tensor(np.concatenate(frames), dtype=torch.float32)
            self.items.append((x, torch.tensor([stoi[p] for p in seq])))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    xs, ys = zip(*batch)
    xl = torch.tensor([len(x) for x in xs])
    yl = torch.tensor([len(y) for y in ys])
    return nn.utils.rnn.pad_sequence(xs, batch_first=True), torch.cat(ys), xl, yl


class Recogniser(nn.Module):
    def __init__(self, h=48):
        super().__init__()
        self.conv = nn.Conv1d(MEL, h, 3, stride=2, padding=1)
        self.rnn = nn.GRU(h, h, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * h, len(PHONES) + 1)

    def forward(self, x, xl):
        z = F.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        zl = (xl - 1) // 2 + 1
        packed = nn.utils.rnn.pack_padded_sequence(z, zl, batch_first=True, enforce_sorted=False)
        z, _ = self.rnn(packed)
        z, _ = nn.utils.rnn.pad_packed_sequence(z, batch_first=True)
        return self.out(z).log_softmax(-1), zl


def greedy(logp, n):
    path = logp[:n].argmax(-1).tolist()
    return [p for i, p in enumerate(path) if p != BLANK and (i == 0 or p != path[i - 1])]


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, cb in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (ca != cb))
    return row[-1]


@torch.no_grad()
def per(model, loader):
    model.eval()
    wrong = total = 0
    for x, y, xl, yl in loader:
        logp, zl = model(x, xl)
        for lp, n, ref in zip(logp, zl.tolist(), y.split(yl.tolist())):
            wrong += edits(greedy(lp, n), ref.tolist())
            total += len(ref)
    return wrong / total


def train():
    torch.manual_seed(11)
    mk = lambda n, s, sh: torch.utils.data.DataLoader(Utterances(n, s), 32, shuffle=sh, collate_fn=collate)
    tr, va, te = mk(600, 1, True), mk(120, 2, False), mk(200, 3, False)
    model = Recogniser()
    criterion = nn.CTCLoss(blank=BLANK, zero_infinity=True)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(8):
        model.train()
        losses = []
        for x, y, xl, yl in tr:
            logp, zl = model(x, xl)
            loss = criterion(logp.transpose(0, 1), y, zl, yl)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: ctc {np.mean(losses):.3f}  dev per {per(model, va):.3f}")
    print(f"test per {per(model, te):.4f}")


train()
