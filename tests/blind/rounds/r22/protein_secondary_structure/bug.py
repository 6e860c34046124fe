"""Per-residue secondary structure (helix / strand / coil) from sequence."""
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 11
AA = "ACDEFGHIKLMNPQRSTVWY"
STATES = "HEC"
PAD = len(AA)
IGNORE = -1


def set_seed(s):
    random.seed(s)
    np.random.seed(s)
    torch.manual_seed(s)


def simulate_chains(n, rng):
    """Chains made of segments; every state prefers its own residues."""
    logp = rng.normal(0.0, 1.0, size=(3, len(AA)))
    prob = np.exp(logp) / np.exp(logp).sum(1, keepdims=True)
    chains = []
    for _ in range(n):
        length = rng.integers(35, 71)
        states = []
        s = rng.integers(3)
        while len(states) < length:
            states += [s] * int(rng.integers(5, 13))
            s = (s + rng.integers(1, 3)) % 3
        states = np.array(states[:length])
        seq = np.array([rng.choice(len(AA), p=prob[k]) for k in states])
        chains.append((seq, states))
    return chains


def collate(batch):
    width = max(len(s) for s, _ in batch)
    x = torch.full((len(batch), width), PAD)
    y = torch.full((len(batch), width), IGNORE)
    for i, (s, t) in enumerate(batch):
        x[i, :len(s)] = torch.as_tensor(s)
        y[i, :len(t)] = torch.as_tensor(t)
    return x, y


class Tagger(nn.Module):
    def __init__(self, dim=24, hidden=48):
        super().__init__()
        self.emb = nn.Embedding(len(AA) + 1, dim, padding_idx=PAD)
        self.conv1 = nn.Conv1d(dim, hidden, 7, padding=3)
        self.conv2 = nn.Conv1d(hidden, hidden, 7, padding=3)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, len(STATES))

    def forward(self, x):
        h = self.emb(x).transpose(1, 2)
        h = F.relu(self.conv1(h))
        h = F.relu(self.conv2(self.drop(h)))
        return self.out(self.drop(h.transpose(1, 2)))


def q3(model, loader):
    model.eval()
    hit = tot = 0
    with torch.no_grad():
        for x, y in loader:
            pred = model(x).argmax(-1)
            keep = y != IGNORE
            hit += (pred[keep] == y[keep]).sum().item()
            tot += keep.sum().item()
    return hit / tot


def main():
    set_seed(SEED)
    rng = np.random.default_rng(SEED)
    chains = simulate_chains(1000, rng)
    train, val = chains[:800], chains[800:]
    loader = torch.utils.data.DataLoader(train, batch_size=16, shuffle=True, collate_fn=collate)
    val_loader = torch.utils.data.DataLoader(val, batch_size=50, collate_fn=collate)

    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(8):
        model.train()
        running = 0.0
        for x, y in loader:
            logits = model(x)
            bs, width, n_states = logits.shape
            loss = F.cross_entropy(logits.reshape(bs, n_states, width), y, ignore_index=IGNORE)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            running += loss.item()
        print(f"epoch {epoch} loss {running / len(loader):.3f} q3 {q3(model, val_loader):.3f}")
    print(f"validation Q3 accuracy: {q3(model, val_loader):.4f}")


if __name__ == "__main__":
    main()
