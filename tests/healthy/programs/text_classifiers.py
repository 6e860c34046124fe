"""Two text classifiers side by side: a convolution over padded ids, and a bag of words with sparse gradients and two
optimizers."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

torch.manual_seed(21)
VOCAB, CLASSES = 200, 3


def make_text(label):
    n = int(torch.randint(6, 20, (1,)))
    common = torch.randint(1, 140, (n,))
    special = torch.randint(140 + 20 * label, 160 + 20 * label, (n,))
    return label, torch.where(torch.rand(n) < 0.3, special, common)


def make_set(n):
    return [make_text(int(label)) for label in torch.randint(0, CLASSES, (n,))]


def collate_padded(batch):
    labels, texts = zip(*batch, strict=True)
    return nn.utils.rnn.pad_sequence(texts, batch_first=True), torch.tensor(labels)


def collate_offsets(batch):
    label_list, text_list, offsets = [], [], [0]
    for label, text in batch:
        label_list.append(label)
        text_list.append(text)
        offsets.append(text.size(0))
    return torch.cat(text_list), torch.tensor(offsets[:-1]).cumsum(dim=0), torch.tensor(label_list, dtype=torch.int64)


class TextCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, 32, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv1d(32, 16, k, padding=k - 1) for k in (2, 3, 4)])
        self.dropout = nn.Dropout(0.3)
        self.fc = nn.Linear(48, CLASSES)

    def forward(self, text):
        embedded = self.embedding(text).permute(0, 2, 1)
        pooled = [F.max_pool1d(F.relu(conv(embedded)), int(embedded.size(2))).squeeze(2) for conv in self.convs]
        return self.fc(self.dropout(torch.cat(pooled, dim=1)))


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(VOCAB, 16, sparse=True)
        self.fc = nn.Linear(16, CLASSES)
        self.embedding.weight.data.uniform_(-0.5, 0.5)
        self.fc.bias.data.zero_()

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


train_set, test_set = make_set(240), make_set(90)
cnn = TextCNN()
optimizer = torch.optim.Adadelta(cnn.parameters(), lr=1.0, rho=0.95)
for epoch in range(3):
    cnn.train()
    for texts, labels in DataLoader(train_set, batch_size=24, shuffle=True, collate_fn=collate_padded):
        optimizer.zero_grad()
        loss = F.cross_entropy(cnn(texts), labels)
        loss.backward()
        optimizer.step()
    cnn.eval()
    with torch.no_grad():
        texts, labels = collate_padded(test_set)
        print(
            f"cnn epoch {epoch}: {loss.item():.3f}, accuracy "
            f"{(cnn(texts).argmax(1) == labels).float().mean().item():.2f}"
        )

bag = BagOfWords()
sparse_optimizer = torch.optim.SparseAdam(list(bag.embedding.parameters()), lr=0.02)
dense_optimizer = torch.optim.Adam(bag.fc.parameters(), lr=0.02)
criterion = nn.CrossEntropyLoss()
for epoch in range(4):
    bag.train()
    for texts, offsets, labels in DataLoader(train_set, batch_size=16, shuffle=True, collate_fn=collate_offsets):
        sparse_optimizer.zero_grad()
        dense_optimizer.zero_grad()
        loss = criterion(bag(texts, offsets), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(bag.fc.parameters(), 0.5)
        sparse_optimizer.step()
        dense_optimizer.step()
    bag.eval()
    with torch.no_grad():
        texts, offsets, labels = collate_offsets(test_set)
        print(
            f"bag epoch {epoch}: {loss.item():.3f}, accuracy "
            f"{(bag(texts, offsets).argmax(1) == labels).float().mean().item():.2f}"
        )
