"""Line OCR with a conv + BiGRU recogniser and CTC."""
import argparse

import numpy as np
import torch
from torch import nn

CHARS = "0123456789"
BLANK = 0
GLYPHS = ["111101101101111", "010110010010111", "111001111100111", "111001111001111", "101101111001001",
          "111100111001111", "111100111101111", "111001010010010", "111101111101111", "111101111001111"]


def render(text, width, rng):
    img = np.zeros((8, width), np.float32)
    x = rng.integers(1, 3)
    for ch in text:
        g = np.array([int(c) for c in GLYPHS[int(ch)]], np.float32).reshape(5, 3)
        y = rng.integers(1, 3)
        img[y:y + 5, x:x + 3] = g
        x += 3 + rng.integers(1, 3)
    return img + rng.normal(0, 0.15, img.shape).astype(np.float32)


def make_lines(n, width, rng):
    images, texts = [], []
    for _ in range(n):
        text = "".join(rng.choice(list(CHARS), rng.integers(3, 6)))
        images.append(render(text, width, rng))
        texts.append(text)
    return torch.from_numpy(np.stack(images).astype(np.float32)), texts


def encode(texts):
    ids = [torch.tensor([CHARS.index(c) + 1 for c in t]) for t in texts]
    return torch.cat(ids), torch.tensor([len(i) for i in ids])


class LineRecognizer(nn.Module):
    def __init__(self, n_classes, hidden=32):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                                  nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                                  nn.MaxPool2d((2, 1)))
        self.rnn = nn.GRU(16 * 4, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, n_classes)

    def forward(self, x):
        z = self.conv(x.unsqueeze(1))                       # B, C, H, T
        z = z.permute(0, 3, 1, 2).flatten(2)                # B, T, C*H
        h, _ = self.rnn(z)
        return self.fc(h).log_softmax(-1)                   # B, T, K


def greedy_decode(log_probs):
    out = []
    for path in log_probs.argmax(-1).tolist():
        text, prev = "", BLANK
        for k in path:
            if k != prev and k != BLANK:
                text += CHARS[k - 1]
            prev = k
        out.append(text)
    return out


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, cb in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (ca != cb))
    return row[-1]


@torch.no_grad()
def character_error_rate(model, images, texts):
    model.eval()
    hyps = greedy_decode(model(images))
    return sum(edit_distance(h, t) for h, t in zip(hyps, texts)) / sum(map(len, texts))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lines", type=int, default=480)
    ap.add_argument("--width", type=int, default=30)
    ap.add_argument("--epochs", type=int, default=9)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=8e-3)
    ap.add_argument("--seed", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    images, texts = make_lines(args.lines, args.width, rng)
    val_images, val_texts = make_lines(100, args.width, rng)

    model = LineRecognizer(len(CHARS) + 1)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    ctc = nn.CTCLoss(blank=BLANK)
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for ids in torch.randperm(args.lines).split(args.batch_size):
            log_probs = model(images[ids])
            b, t, k = log_probs.shape
            targets, target_lens = encode([texts[i] for i in ids.tolist()])
            loss = ctc(log_probs.permute(1, 0, 2), targets, torch.full((b,), t), target_lens)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            losses.append(loss.item())
        cer = character_error_rate(model, val_images, val_texts)
        print(f"epoch {epoch + 1:2d} ctc {np.mean(losses):.3f} val CER {cer:.3f}")


if __name__ == "__main__":
    main()
