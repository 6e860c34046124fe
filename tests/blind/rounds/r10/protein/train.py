"""Three-state secondary structure from sequence (1D CNN, padded batches)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

AA = "ACDEFGHIKLMNPQRSTVWY"
STATES = "HEC"
PAD_AA, IGNORE = 0, -100
AA_INDEX = {a: i + 1 for i, a in enumerate(AA)}


def read_fasta(path):
    chains, name = {}, None
    with open(path) as fh:
        for line in fh:
            line = line.strip()
            if line.startswith(">"):
                name = line[1:]
                chains[name] = ""
            else:
                chains[name] += line
    return chains


def read_structure(path):
    with open(path) as fh:
        return dict(line.split() for line in fh)


def load():
    seqs, ss = read_fasta("data/chains.fasta"), read_structure("data/structure.ss3")
    records = []
    for name in sorted(seqs):
        assert len(seqs[name]) == len(ss[name]), name
        x = torch.tensor([AA_INDEX[a] for a in seqs[name]])
        y = torch.tensor([STATES.index(s) for s in ss[name]])
        records.append((x, y))
    return records


def collate(items):
    return {"residues": pad_sequence([x for x, _ in items], batch_first=True, padding_value=PAD_AA),
            "states": pad_sequence([y for _, y in items], batch_first=True, padding_value=IGNORE)}


class SSNet(nn.Module):
    def __init__(self, dim=24, ch=48):
        super().__init__()
        self.embed = nn.Embedding(len(AA) + 1, dim, padding_idx=PAD_AA)
        self.c1 = nn.Conv1d(dim, ch, 7, padding=3)
        self.c2 = nn.Conv1d(ch, ch, 5, padding=2)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Conv1d(ch, len(STATES), 1)

    def forward(self, tokens):
        keep = (tokens != PAD_AA).unsqueeze(1)
        h = F.relu(self.c1(self.embed(tokens).transpose(1, 2))) * keep
        h = F.relu(self.c2(h)) * keep
        return self.out(self.drop(h))


@torch.no_grad()
def q3(model, loader):
    model.eval()
    right, count = np.zeros(3), np.zeros(3)
    for batch in loader:
        pred = model(batch["residues"]).argmax(1)
        for s in range(3):
            here = batch["states"] == s
            right[s] += (pred[here] == s).sum().item()
            count[s] += here.sum().item()
    return right.sum() / count.sum(), right / count


def main(epochs=15):
    torch.set_num_threads(1)
    torch.manual_seed(9)
    records = load()
    order = np.random.default_rng(9).permutation(len(records))
    val = [records[i] for i in order[:140]]
    train = [records[i] for i in order[140:]]
    train_loader = DataLoader(train, batch_size=16, shuffle=True, collate_fn=collate)
    val_loader = DataLoader(val, batch_size=70, collate_fn=collate)
    model = SSNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1, epochs + 1):
        model.train()
        losses = []
        for batch in train_loader:
            loss = F.cross_entropy(model(batch["residues"]), batch["states"], ignore_index=IGNORE)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        total, per = q3(model, val_loader)
        print(f"epoch {epoch:2d} loss {np.mean(losses):.4f} val Q3 {total:.4f} "
              f"H {per[0]:.3f} E {per[1]:.3f} C {per[2]:.3f}")
    return model


if __name__ == "__main__":
    main()
