"""An LSTM classifier over sequences, built with functions: train_epoch, evaluate."""

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(8)


class Sequences(Dataset):
    def __init__(self, n):
        self.x = torch.randint(1, 12, (n, 15))
        self.y = (self.x[:, :7].sum(1) > self.x[:, 8:].sum(1)).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class SequenceClassifier(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.embedding = nn.Embedding(12, 16)
        self.lstm = nn.LSTM(16, hidden, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(hidden, 2)

    def forward(self, x):
        output, _ = self.lstm(self.embedding(x))
        features = self.dropout(output[:, -1])
        return self.classifier(features)


def train_epoch(model, loader, optimizer, criterion):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        scores = model(x)
        loss = criterion(scores, y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
    return total / len(loader.dataset)


@torch.no_grad()
def evaluate(model, loader, criterion):
    model.eval()
    total, correct = 0.0, 0
    for x, y in loader:
        scores = model(x)
        total += criterion(scores, y).item() * len(x)
        correct += (scores.argmax(1) == y).sum().item()
    return total / len(loader.dataset), correct / len(loader.dataset)


train_loader = DataLoader(Sequences(480), batch_size=48, shuffle=True)
valid_loader = DataLoader(Sequences(96), batch_size=48)
model = SequenceClassifier()
criterion = nn.CrossEntropyLoss()
optimizer = optim.AdamW(model.parameters(), lr=5e-3)
scheduler = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
for epoch in range(11):
    train_epoch(model, train_loader, optimizer, criterion)
    evaluate(model, valid_loader, criterion)
    scheduler.step()
