"""A masked language model: bidirectional encoder, padding mask, labels -100 where nothing is asked, linear warm-up by
LambdaLR."""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(11)
PAD, MASK, FIRST, VOCAB, LENGTH = 0, 1, 2, 24, 16


class Sentences(Dataset):
    """Each sentence counts upwards from a random start, so a masked word follows from its neighbours."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            start = int(torch.randint(0, VOCAB - FIRST, (1,), generator=g))
            size = int(torch.randint(8, LENGTH + 1, (1,), generator=g))
            self.rows.append(torch.tensor([FIRST + (start + i) % (VOCAB - FIRST) for i in range(size)]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    labels = ids.clone()
    chosen = (torch.rand(ids.shape) < 0.2) & (ids != PAD)
    chosen[:, 1] = True
    labels[~chosen] = -100
    replaced = chosen & (torch.rand(ids.shape) < 0.8)
    random_word = chosen & ~replaced & (torch.rand(ids.shape) < 0.5)
    ids = ids.masked_fill(replaced, MASK)
    ids[random_word] = torch.randint(FIRST, VOCAB, (int(random_word.sum()),))
    return ids, labels


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=LENGTH):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe, persistent=False)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class Bert(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.position = PositionalEncoding(d)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d), nn.Linear(d, VOCAB))

    def forward(self, ids):
        hidden = self.encoder(self.position(self.embed(ids)), src_key_padding_mask=ids == PAD)
        return self.head(hidden)


train_loader = DataLoader(Sentences(256, 0), batch_size=32, shuffle=True, collate_fn=collate, drop_last=True)
val_loader = DataLoader(Sentences(64, 1), batch_size=32, collate_fn=collate)
model = Bert()
criterion = nn.CrossEntropyLoss(ignore_index=-100)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
epochs, warmup = 5, 5
total = epochs * len(train_loader)
scheduler = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda s: (s + 1) / warmup if s < warmup else max(0.0, (total - s) / (total - warmup))
)
for epoch in range(epochs):
    model.train()
    for ids, labels in train_loader:
        logits = model(ids)
        loss = criterion(logits.view(-1, VOCAB), labels.view(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    model.eval()
    right = asked = 0
    with torch.no_grad():
        for ids, labels in val_loader:
            where = labels != -100
            right += (model(ids).argmax(-1)[where] == labels[where]).sum().item()
            asked += where.sum().item()
    print(f"epoch {epoch}: loss {loss.item():.3f}, masked accuracy {right / asked:.3f}")
