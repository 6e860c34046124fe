# mood of short messages: frozen pretrained word vectors, average, small classifier
import json
import os
import sys
import torch
import torch.nn as nn

folder = sys.argv[1]
torch.manual_seed(9)


def read_lines(name):
    with open(os.path.join(folder, name)) as f:
        return [line.rstrip("\n") for line in f]


vocab = {w: i for i, w in enumerate(read_lines("vocab.txt"))}
pretrained = torch.load(os.path.join(folder, "embedding.pt"))["weight"]
assert len(vocab) == len(pretrained)


def load(name):
    bags, labels = [], []
    for line in read_lines(name):
        rec = json.loads(line)
        bags.append(torch.tensor([vocab[w] for w in rec["text"].split() if w in vocab]))
        labels.append(rec["label"])
    return bags, torch.tensor(labels, dtype=torch.float32)


class MoodNet(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.bag = nn.EmbeddingBag.from_pretrained(weight, freeze=True, mode="mean")
        self.fc = nn.Sequential(nn.Linear(weight.shape[1], 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))

    def forward(self, bags):
        offsets = torch.tensor([0] + [len(b) for b in bags[:-1]]).cumsum(0)
        return self.fc(self.bag(torch.cat(bags), offsets)).squeeze(1)


train_bags, train_y = load("train.jsonl")
test_bags, test_y = load("test.jsonl")
model = MoodNet(pretrained)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=5e-3)

for epoch in range(1, 31):
    model.train()
    losses = []
    for idx in torch.randperm(len(train_bags)).split(30):
        optimizer.zero_grad()
        loss = criterion(model([train_bags[i] for i in idx]), train_y[idx])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if epoch % 10 == 0:
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")

model.eval()
with torch.no_grad():
    acc = ((model(test_bags) > 0).float() == test_y).float().mean().item()
print(f"test accuracy {acc:.4f}")
