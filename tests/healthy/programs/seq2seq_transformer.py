"""Encoder-decoder transformer, batch first: teacher forcing with shifted targets, label smoothing, the Noam schedule,
DataLoader."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
PAD, BOS, EOS, VOCAB, D = 0, 1, 2, 16, 32

lengths = torch.randint(4, 8, (256,))
source = torch.randint(3, VOCAB, (256, 8))
source[torch.arange(8)[None, :] >= lengths[:, None]] = PAD
target = torch.full((256, 10), PAD)
target[:, 0] = BOS
for i, size in enumerate(lengths.tolist()):
    target[i, 1 : size + 1] = (source[i, :size] - 3 + 1) % (VOCAB - 3) + 3
    target[i, size + 1] = EOS
train_set = TensorDataset(source[:224], target[:224])
test_set = TensorDataset(source[224:], target[224:])


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.src_tok = nn.Embedding(VOCAB, D)
        self.tgt_tok = nn.Embedding(VOCAB, D)
        self.pos = nn.Parameter(torch.randn(1, 12, D) * 0.02)
        self.transformer = nn.Transformer(D, 4, 1, 1, 64, dropout=0.1, batch_first=True)
        self.generator = nn.Linear(D, VOCAB)

    def encode(self, src):
        return self.transformer.encoder(
            self.src_tok(src) * D**0.5 + self.pos[:, : src.size(1)], src_key_padding_mask=src == PAD
        )

    def decode(self, tgt, memory, src):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        x = self.tgt_tok(tgt) * D**0.5 + self.pos[:, : tgt.size(1)]
        padding = torch.zeros(tgt.shape).masked_fill(tgt == PAD, float("-inf"))
        out = self.transformer.decoder(
            x, memory, tgt_mask=mask, tgt_key_padding_mask=padding, memory_key_padding_mask=src == PAD
        )
        return self.generator(out)

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), src)


def greedy(model, src, steps=9):
    memory = model.encode(src)
    ys = torch.full((src.size(0), 1), BOS)
    for _ in range(steps):
        ys = torch.cat([ys, model.decode(ys, memory, src)[:, -1].argmax(-1, keepdim=True)], dim=1)
    return ys


model = Translator()
for p in model.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
scheduler = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda s: 0.6 * D**-0.5 * min((s + 1) ** -0.5, (s + 1) * 20**-1.5)
)
train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
test_loader = DataLoader(test_set, batch_size=32)
for epoch in range(3):
    model.train()
    total, tokens = 0.0, 0
    for src, tgt in train_loader:
        tgt_in, tgt_out = tgt[:, :-1], tgt[:, 1:]
        logits = model(src, tgt_in)
        loss = criterion(logits.reshape(-1, VOCAB), tgt_out.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        n = (tgt_out != PAD).sum().item()
        total, tokens = total + loss.item() * n, tokens + n
    model.eval()
    with torch.no_grad():
        hits = sum((greedy(model, src)[:, 1:4] == tgt[:, 1:4]).float().mean().item() for src, tgt in test_loader)
    print(f"epoch {epoch}: loss {total / tokens:.3f}, first words {hits / len(test_loader):.2f}")
