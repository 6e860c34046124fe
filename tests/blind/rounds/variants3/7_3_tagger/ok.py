import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(22)
STEPS = TAGS = WORDS = 16


def sentences(n):
    word = torch.randint(WORDS, (n, STEPS))
    left = F.pad(word[:, :-1], (1, 0))
    tag = (word + 5 * (left % 3)) % TAGS
    swap = torch.rand(n, STEPS) < 0.02
    return word, torch.where(swap, torch.randint(TAGS, (n, STEPS)), tag)


class CausalConv(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.pad, self.conv = k - 1, nn.Conv1d(cin, cout, k)

    def forward(self, x):
        return self.conv(F.pad(x, (self.pad, 0)))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(WORDS, 24)
        self.net = nn.Sequential(CausalConv(24, 64, 3), nn.ReLU(), CausalConv(64, 64, 2), nn.ReLU(), nn.Conv1d(64, TAGS, 1))

    def forward(self, word):
        return self.net(self.emb(word).transpose(1, 2))


class Meter:
    def __init__(self):
        self.loss, self.hits, self.count = 0.0, 0, 0

    def add(self, logits, tag):
        self.loss += F.cross_entropy(logits, tag, reduction="sum").item()
        self.hits += (logits.argmax(dim=1) == tag).sum().item()
        self.count += tag.numel()

    def __str__(self):
        return f"loss {self.loss / self.count:.4f} accuracy {self.hits / self.count:.4f}"


train_word, train_tag = sentences(1000)
valid_word, valid_tag = sentences(250)
model = Tagger()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)

for epoch in range(8):
    model.train()
    meter = Meter()
    for rows in torch.randperm(len(train_word)).split(50):
        logits = model(train_word[rows])
        loss = F.cross_entropy(logits, train_tag[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        meter.add(logits.detach(), train_tag[rows])
    model.eval()
    held = Meter()
    with torch.no_grad():
        for word, tag in zip(valid_word.split(60), valid_tag.split(60)):
            held.add(model(word), tag)
    print(f"epoch {epoch}  train: {meter}  valid: {held}")
