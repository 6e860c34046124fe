"""A tagger with packed sequences: LSTM both ways, loss over real tokens only, batches in any order of length."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(8)
WORDS, TAGS, PAD_TAG = 30, 4, -1


class Sentences(Dataset):
    """A word's tag depends on the word and on the word before it."""

    def __init__(self, n):
        self.items = []
        for _ in range(n):
            words = torch.randint(1, WORDS, (int(torch.randint(3, 12, (1,))),))
            before = torch.cat([words.new_zeros(1), words[:-1]])
            self.items.append((words, (words % 2) * 2 + before % 2))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    words, tags = zip(*items, strict=True)
    lengths = torch.tensor([len(w) for w in words])
    return pad_sequence(words, batch_first=True), pad_sequence(tags, batch_first=True, padding_value=PAD_TAG), lengths


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(WORDS, 24, padding_idx=0)
        self.lstm = nn.LSTM(24, 24, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.2)
        self.hidden2tag = nn.Linear(48, TAGS)

    def forward(self, words, lengths):
        embedded = self.word_embeddings(words)
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        output, _ = self.lstm(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        return F.log_softmax(self.hidden2tag(self.dropout(output)), dim=-1)


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
train = DataLoader(Sentences(200), batch_size=20, shuffle=True, collate_fn=collate)
test = DataLoader(Sentences(50), batch_size=50, collate_fn=collate)
for epoch in range(5):
    model.train()
    running = 0.0
    for words, tags, lengths in train:
        model.zero_grad()
        log_probs = model(words, lengths)
        loss = F.nll_loss(log_probs.transpose(1, 2), tags, ignore_index=PAD_TAG)
        loss.backward()
        optimizer.step()
        running += loss.item()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        for words, tags, lengths in test:
            guess = model(words, lengths).argmax(-1)
            real = tags != PAD_TAG
            accuracy = (guess[real] == tags[real]).float().mean().item()
    print(f"epoch {epoch}: loss {running / len(train):.3f}, accuracy {accuracy:.3f}")
