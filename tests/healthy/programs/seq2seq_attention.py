"""Sequence to sequence, time-major, GRU with dot attention; teacher forcing by chance per batch; greedy decoding in
evaluation."""

import random

import torch
import torch.nn as nn
from torch import optim
from torch.nn.utils.rnn import pad_sequence

random.seed(2)
torch.manual_seed(2)
PAD, SOS, EOS, VOCAB, HIDDEN = 0, 1, 2, 14, 48


def make_pair():
    words = [random.randrange(3, VOCAB) for _ in range(random.randint(3, 6))]
    return torch.tensor([*words, EOS]), torch.tensor([SOS, *reversed(words), EOS])


def make_batch(n=32):
    pairs = [make_pair() for _ in range(n)]
    return pad_sequence([p[0] for p in pairs], padding_value=PAD), pad_sequence(
        [p[1] for p in pairs], padding_value=PAD
    )


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, HIDDEN, padding_idx=PAD)
        self.rnn = nn.GRU(HIDDEN, HIDDEN, bidirectional=True)
        self.fc = nn.Linear(HIDDEN * 2, HIDDEN)
        self.dropout = nn.Dropout(0.1)

    def forward(self, src):
        outputs, hidden = self.rnn(self.dropout(self.embedding(src)))
        return self.fc(outputs), torch.tanh(self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1))).unsqueeze(0)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, HIDDEN, padding_idx=PAD)
        self.rnn = nn.GRU(HIDDEN * 2, HIDDEN)
        self.out = nn.Linear(HIDDEN * 2, VOCAB)
        self.dropout = nn.Dropout(0.1)

    def forward(self, token, hidden, encoder_outputs, mask):
        embedded = self.dropout(self.embedding(token.unsqueeze(0)))
        energy = torch.einsum("sbh,bh->bs", encoder_outputs, hidden[-1]).masked_fill(mask, float("-inf"))
        context = torch.einsum("bs,sbh->bh", torch.softmax(energy, dim=1), encoder_outputs).unsqueeze(0)
        output, hidden = self.rnn(torch.cat((embedded, context), dim=2), hidden)
        return self.out(torch.cat((output, context), dim=2).squeeze(0)), hidden


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, src, trg, teacher_forcing_ratio=0.5):
        encoder_outputs, hidden = self.encoder(src)
        mask = (src == PAD).t()
        outputs = torch.zeros(trg.size(0), trg.size(1), VOCAB)
        token = trg[0]
        for t in range(1, trg.size(0)):
            output, hidden = self.decoder(token, hidden, encoder_outputs, mask)
            outputs[t] = output
            token = trg[t] if random.random() < teacher_forcing_ratio else output.argmax(1)
        return outputs


def init_weights(m):
    for name, param in m.named_parameters():
        if "weight" in name:
            nn.init.normal_(param.data, mean=0, std=0.08)
        else:
            nn.init.constant_(param.data, 0)


model = Seq2Seq(Encoder(), Decoder())
model.apply(init_weights)
optimizer = optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
valid = [make_batch(16) for _ in range(2)]
for epoch in range(3):
    model.train()
    for _ in range(15):
        src, trg = make_batch()
        optimizer.zero_grad()
        output = model(src, trg)
        loss = criterion(output[1:].view(-1, VOCAB), trg[1:].view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [criterion(model(src, trg, 0)[1:].view(-1, VOCAB), trg[1:].view(-1)).item() for src, trg in valid]
    print(f"epoch {epoch}: train {loss.item():.3f}, valid {sum(losses) / len(losses):.3f}")
