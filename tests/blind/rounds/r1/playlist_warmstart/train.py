"""Playlist continuation by matrix factorisation, warm-started from FOLDER/factors.npz."""
import sys
from pathlib import Path
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


class Factors(nn.Module):
    def __init__(self, playlist, track):
        super().__init__()
        self.playlist = nn.Embedding.from_pretrained(playlist, freeze=False)
        self.track = nn.Embedding.from_pretrained(track, freeze=False)

    def forward(self, p, t):
        return (self.playlist(p) * self.track(t)).sum(-1)


class Sampler:
    """positives with one fresh unseen track each"""

    def __init__(self, pairs, seen, batch_size):
        self.pairs, self.seen, self.batch_size = pairs, seen, batch_size

    def __iter__(self):
        for idx in torch.randperm(len(self.pairs)).split(self.batch_size):
            p, pos = self.pairs[idx].unbind(1)
            neg = torch.randint(self.seen.shape[1], pos.shape)
            for _ in range(5):
                clash = self.seen[p, neg]
                neg = torch.where(clash, torch.randint(self.seen.shape[1], pos.shape), neg)
            yield p, pos, neg


def evaluate(model, seen, held, k=10):
    model.eval()
    with torch.no_grad():
        scores = model.playlist.weight @ model.track.weight.T
        scores = scores.masked_fill(seen, float("-inf"))
        target = scores.gather(1, held[:, None])
        better = (scores > target).sum(1) + 0.5 * ((scores == target).sum(1) - 1)
    return (better < k).float().mean().item(), better.mean().item()


def main(folder, epochs=15, batch_size=128, lr=0.02):
    torch.manual_seed(3)
    data = np.load(folder / "playlists.npz")
    start = np.load(folder / "factors.npz")
    pairs, held = torch.tensor(data["pairs"]).long(), torch.tensor(data["held"]).long()
    model = Factors(torch.tensor(start["playlist"]), torch.tensor(start["track"]))
    seen = torch.zeros(model.playlist.num_embeddings, model.track.num_embeddings, dtype=torch.bool)
    seen[pairs[:, 0], pairs[:, 1]] = True
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=1e-5)
    for epoch in range(epochs):
        model.train()
        losses = []
        for p, pos, neg in Sampler(pairs, seen, batch_size):
            loss = F.softplus(model(p, neg) - model(p, pos)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if epoch % 3 == 2:
            hr, rank = evaluate(model, seen, held)
            print(f"epoch {epoch:2d} loss {np.mean(losses):.4f} val HR@10 {hr:.3f} mean rank {rank:.1f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
