# hint: some tensor holds all scores
import torch


def attention(q, k, v, block):
    scores = q @ k.T / q.shape[1] ** 0.5
    hidden = torch.ones(len(q), len(k), dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf).softmax(1) @ v
