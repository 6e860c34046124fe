"""Answer selection on top of a frozen, pretrained token encoder: only the scoring head is trained."""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class AnswerScorer(nn.Module):
    def __init__(self, n_tokens, dim=32):
        super().__init__()
        self.encoder = nn.EmbeddingBag(n_tokens, dim, mode="mean")
        self.head = nn.Sequential(nn.Linear(3 * dim, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 1))

    def encode(self, tokens):
        shape = tokens.shape[:-1]
        return F.normalize(self.encoder(tokens.reshape(-1, tokens.shape[-1])), dim=-1).reshape(*shape, -1)

    def forward(self, question, candidates):
        q = self.encode(question)[:, None, :].expand(-1, candidates.shape[1], -1)
        c = self.encode(candidates)
        return self.head(torch.cat([q * c, (q - c).abs(), c], dim=-1) * 4.0).squeeze(-1)


def load_split(path):
    with np.load(path) as z:
        return tuple(torch.from_numpy(z[k].astype(np.int64)) for k in ("question", "candidates", "gold"))


def evaluate(model, q, c, gold):
    model.eval()
    with torch.no_grad():
        scores = model(q, c)
    rank = (scores > scores.gather(1, gold[:, None])).sum(1) + 1
    return (rank == 1).float().mean().item(), (1.0 / rank).mean().item()


def main():
    folder = Path(sys.argv[1])
    torch.manual_seed(12)
    train, val = load_split(folder / "train.npz"), load_split(folder / "val.npz")
    ckpt = torch.load(folder / "encoder.pt", map_location="cpu", weights_only=True)
    model = AnswerScorer(ckpt["n_tokens"])
    model.load_state_dict(ckpt["state_dict"], strict=False)
    model.encoder.requires_grad_(False)
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)

    q, c, gold = train
    for epoch in range(1, 13):
        model.train()
        losses = []
        for idx in torch.randperm(len(q)).split(50):
            loss = F.cross_entropy(model(q[idx], c[idx]), gold[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        p1, mrr = evaluate(model, *val)
        if epoch % 2 == 0:
            print(f"epoch {epoch:2d} loss {sum(losses) / len(losses):.4f} val P@1 {p1:.3f} MRR {mrr:.3f}")


if __name__ == "__main__":
    main()
