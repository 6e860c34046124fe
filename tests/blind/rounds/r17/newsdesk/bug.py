import random
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR

random.seed(13)
torch.manual_seed(13)

TOPICS = {
    "politics": "parliament minister election vote senate coalition policy campaign treaty ballot",
    "sports": "match goal coach league striker championship stadium medal season referee",
    "business": "shares profit merger investors bank inflation earnings startup tariff dividend",
    "science": "researchers telescope genome particle experiment vaccine fossil orbit laboratory climate",
    "culture": "novel film festival orchestra exhibition actor album museum theatre painter",
}
COMMON = ("the a of on in after new says report over first week year plans for with against amid city people "
          "more under talks record deal national world chief group public call").split()


def headline(topic):
    words = random.choices(COMMON, k=random.randint(6, 11))
    words += random.choices(TOPICS[topic].split(), k=random.choice([1, 2, 2, 3]))
    if random.random() < 0.5:
        words += random.choices(TOPICS[random.choice(list(TOPICS))].split(), k=1)
    random.shuffle(words)
    return " ".join(words)


topics = list(TOPICS)
rows = [(headline(t), i) for i, t in enumerate(topics) for _ in range(600)]
random.shuffle(rows)
vocab = {}
for text, _ in rows[:2400]:
    for w in text.split():
        vocab.setdefault(w, len(vocab) + 1)


def batches(part, size, shuffle):
    order = list(range(len(part)))
    if shuffle:
        random.shuffle(order)
    for k in range(0, len(order), size):
        chunk = [part[i] for i in order[k:k + size]]
        ids, offsets = [], []
        for text, _ in chunk:
            offsets.append(len(ids))
            ids += [vocab.get(w, 0) for w in text.split()]
        yield torch.tensor(ids), torch.tensor(offsets), torch.tensor([c for _, c in chunk])


class TopicNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(len(vocab) + 1, 32, mode="mean")
        self.net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, len(topics)))

    def forward(self, ids, offsets):
        return self.net(self.bag(ids, offsets))


train, valid = rows[:2400], rows[2400:]
model = TopicNet()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
scheduler = StepLR(optimizer, step_size=4, gamma=0.5)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(12):
    model.train()
    total = 0.0
    for ids, offsets, y in batches(train, 48, True):
        optimizer.zero_grad()
        loss = loss_fn(model(ids, offsets), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item() * len(y)

    if epoch % 2 == 1:
        model.eval()
        with torch.no_grad():
            hits = sum((model(i, o).argmax(1) == y).sum().item() for i, o, y in batches(valid, 200, False))
        print(f"epoch {epoch + 1}  train loss {total / len(train):.4f}  valid accuracy {hits / len(valid):.4f}")
