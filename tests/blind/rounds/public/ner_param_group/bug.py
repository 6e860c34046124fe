"""A small sequence tagger on made-up sentences: encoder, projection and a head, each with its own learning rate."""

import torch
from torch import nn

torch.manual_seed(7)
VOCAB, TAGS, LENGTH = 60, 5, 12


def sentences(count):
    words = torch.randint(0, VOCAB, (count, LENGTH))
    before = torch.cat([torch.zeros(count, 1, dtype=torch.long), words[:, :-1]], dim=1)
    tags = (words % 3 + before % 3) % TAGS
    return words, tags


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 24)
        self.rnn = nn.LSTM(24, 24, batch_first=True, bidirectional=True)

    def forward(self, words):
        return self.rnn(self.embed(words))[0]


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.project = nn.Linear(48, 16)
        self.fc = nn.Linear(16, TAGS)

    def forward(self, words):
        return self.fc(torch.tanh(self.project(self.encoder(words))))


def make_optimizer(model):
    parameters = []
    params = {"lr": 1e-3, "weight_decay": 1e-2, "params": []}
    for name, param in model.named_parameters():
        if "encoder" in name:
            params["params"].append(param)
    parameters.append(params)

    params = {"lr": 3e-3, "weight_decay": 1e-2, "params": []}
    for name, param in model.named_parameters():
        if "project" in name:
            params["params"].append(param)
    parameters.append(params)

    params = {"lr": 5e-3, "params": []}
    for name, param in model.named_parameters():
        if name.startswith("fc"):
            params["params"].append(param)

    return torch.optim.AdamW(parameters)


model = Tagger()
optimizer = make_optimizer(model)
criterion = nn.CrossEntropyLoss()
train_x, train_y = sentences(1500)
dev_x, dev_y = sentences(400)

for epoch in range(4):
    model.train()
    order = torch.randperm(len(train_x))
    for start in range(0, len(order), 32):
        rows = order[start : start + 32]
        loss = criterion(model(train_x[rows]).flatten(0, 1), train_y[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = (model(dev_x).argmax(-1) == dev_y).float().mean()
    print(f"epoch {epoch} loss {loss.item():.3f} dev accuracy {right.item():.3f}")
