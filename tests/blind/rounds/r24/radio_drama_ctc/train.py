"""Spoken cue lines of radio dramas -> text.  Log-mel frames, conv + bidirectional GRU, CTC.

    python train.py FOLDER
"""
import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class CueSheet:
    """Frames of all cues in one array plus offsets; texts in a tab separated list in the same order."""

    def __init__(self, folder, part, symbols, norm=None):
        pack = np.load(folder / f"{part}_mel.npz")
        frames = pack["frames"].astype(np.float32)
        self.norm = norm or (frames.mean(0), frames.std(0))
        frames = (frames - self.norm[0]) / self.norm[1]
        self.mel = [torch.from_numpy(frames[a:b]) for a, b in zip(pack["offsets"][:-1], pack["offsets"][1:])]
        lines = (folder / f"{part}_text.tsv").read_text(encoding="utf-8").splitlines()
        self.text = [line.split("\t")[1] for line in lines]
        self.ids = [torch.tensor([symbols.index(c) for c in t.replace(" ", "_")]) for t in self.text]

    def batches(self, size, shuffle):
        order = torch.randperm(len(self.mel)) if shuffle else torch.arange(len(self.mel))
        for idx in order.split(size):
            idx = idx.tolist()
            mel = nn.utils.rnn.pad_sequence([self.mel[i] for i in idx], batch_first=True)
            frames = torch.tensor([len(self.mel[i]) for i in idx])
            yield mel, frames, torch.cat([self.ids[i] for i in idx]), torch.tensor([len(self.ids[i]) for i in idx]), idx


class CueReader(nn.Module):
    def __init__(self, n_mel, width, n_out):
        super().__init__()
        self.conv = nn.Conv1d(n_mel, width, 5, stride=2, padding=2)
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, n_out)

    def forward(self, mel, frames):
        h = F.gelu(self.conv(mel.transpose(1, 2))).transpose(1, 2)
        steps = (frames - 1) // 2 + 1
        packed = nn.utils.rnn.pack_padded_sequence(F.dropout(h, 0.1, self.training), steps, True, enforce_sorted=False)
        h, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(h).log_softmax(-1), steps


def greedy(logp, steps, symbols, blank):
    out = []
    for row, n in zip(logp.argmax(-1), steps):
        path = torch.unique_consecutive(row[:n]).tolist()
        out.append("".join(symbols[k] for k in path if k != blank).replace("_", " "))
    return out


def edits(a, b):
    d = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, d[0] = d[0], i
        for j, y in enumerate(b, 1):
            prev, d[j] = d[j], min(d[j] + 1, d[j - 1] + 1, prev + (x != y))
    return d[-1]


def char_error_rate(model, sheet, symbols, blank):
    model.eval()
    wrong = total = 0
    with torch.no_grad():
        for mel, frames, _, _, idx in sheet.batches(64, False):
            for i, guess in zip(idx, greedy(*model(mel, frames), symbols, blank)):
                wrong += edits(guess, sheet.text[i])
                total += len(sheet.text[i])
    return wrong / total


def main(folder):
    cfg = json.loads((folder / "ctc.json").read_text())
    symbols = (folder / "symbols.txt").read_text(encoding="utf-8").split()
    torch.manual_seed(cfg["seed"])
    train = CueSheet(folder, "train", symbols)
    valid = CueSheet(folder, "valid", symbols, train.norm)
    model = CueReader(train.mel[0].shape[1], cfg["width"], len(symbols))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=1e-3)
    total = cfg["epochs"] * -(-len(train.mel) // cfg["batch"])
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, cfg["lr"], total_steps=total)
    ctc = nn.CTCLoss(blank=cfg["blank"], zero_infinity=True)
    for epoch in range(cfg["epochs"]):
        model.train()
        losses = []
        for mel, frames, ids, lengths, _ in train.batches(cfg["batch"], True):
            logp, steps = model(mel, frames)
            loss = ctc(logp.transpose(0, 1), ids, steps, lengths)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sched.step()
            losses.append(loss.item())
        cer = char_error_rate(model, valid, symbols, cfg["blank"])
        print(f"epoch {epoch + 1:2d}/{cfg['epochs']}  ctc {np.mean(losses):.4f}  valid CER {cer:.4f}")


main(pathlib.Path(sys.argv[1]))
