"""Word language model by truncated backpropagation: columns of text, time-major, hidden state detached, SGD, annealed
rate."""

import math
import random

import torch
import torch.nn as nn

torch.manual_seed(1111)
random.seed(1111)
subjects, verbs, objects = (
    ["cats", "dogs", "birds", "foxes"],
    ["chase", "see", "like"],
    ["mice", "balls", "trees", "rivers", "stones"],
)
words = []
for _ in range(900):
    s, v = random.randrange(4), random.randrange(3)
    words += [subjects[s], verbs[v], objects[(s + v) % 5], "<eos>"]
idx = {w: i for i, w in enumerate(dict.fromkeys(words))}
corpus = torch.tensor([idx[w] for w in words])
ntokens, bptt, clip = len(idx), 12, 0.25


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


train_data, val_data = batchify(corpus[:3000], 10), batchify(corpus[3000:], 5)


class RNNModel(nn.Module):
    def __init__(self, ninp=32, nhid=32, nlayers=2, dropout=0.2):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntokens, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntokens)
        self.nhid, self.nlayers = nhid, nlayers
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, ntokens)
        return nn.functional.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid))


def repackage_hidden(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


def get_batch(source, i):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


model = RNNModel()
criterion = nn.NLLLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=8.0)


def evaluate(source):
    model.eval()
    total, hidden = 0.0, model.init_hidden(source.size(1))
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, bptt):
            data, targets = get_batch(source, i)
            output, hidden = model(data, hidden)
            hidden = repackage_hidden(hidden)
            total += len(data) * criterion(output, targets).item()
    return total / (len(source) - 1)


best = None
for epoch in range(1, 4):
    model.train()
    hidden = model.init_hidden(train_data.size(1))
    for i in range(0, train_data.size(0) - 1, bptt):
        data, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    val_loss = evaluate(val_data)
    print(f"end of epoch {epoch}: valid ppl {math.exp(val_loss):.2f}")
    if best is None or val_loss < best:
        best = val_loss
    else:
        for group in optimizer.param_groups:
            group["lr"] /= 4.0
