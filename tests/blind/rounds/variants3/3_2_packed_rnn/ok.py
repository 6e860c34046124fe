import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(6)
PAD, VOCAB = 0, 12


class Tokens(Dataset):
    """Is the token 1 more frequent than the token 2?"""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        while len(self.rows) < n:
            length = int(torch.randint(6, 25, (1,), generator=g))
            seq = torch.randint(1, VOCAB, (length,), generator=g)
            swap = torch.rand(length, generator=g) < 0.5
            seq = torch.where(swap, torch.randint(1, 3, (length,), generator=g), seq)
            diff = int((seq == 1).sum() - (seq == 2).sum())
            if diff != 0:
                self.rows.append((seq, float(diff > 0)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(items):
    seqs, labels = zip(*items)
    lengths, order = torch.tensor([len(s) for s in seqs]).sort(descending=True)
    padded = pad_sequence(seqs, batch_first=True, padding_value=PAD)[order]
    return padded, lengths, torch.tensor(labels)[order]


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 16, padding_idx=PAD)
        self.rnn = nn.GRU(16, 32, batch_first=True)
        self.out = nn.Linear(32, 1)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.emb(tokens), lengths, batch_first=True)
        _, h = self.rnn(packed)
        return self.out(h[-1]).squeeze(1)


train_dl = DataLoader(Tokens(1500, 0), batch_size=50, shuffle=True, collate_fn=collate)
valid_dl = DataLoader(Tokens(400, 1), batch_size=50, collate_fn=collate)
model = Counter()
opt = torch.optim.Adam(model.parameters(), lr=8e-3)

for epoch in range(7):
    model.train()
    total = 0.0
    for tokens, lengths, label in train_dl:
        loss = F.binary_cross_entropy_with_logits(model(tokens, lengths), label)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item() / len(train_dl)
    model.eval()
    good = n = 0
    with torch.no_grad():
        for tokens, lengths, label in valid_dl:
            good += ((model(tokens, lengths) > 0).float() == label).sum().item()
            n += len(label)
    print(f"epoch {epoch}  loss {total:.4f}  valid accuracy {good / n:.4f}")
