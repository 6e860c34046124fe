"""Sequence recognition with CTC: BiLSTM over frames, packed lengths, greedy decoding for validation."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

ALPHABET = 6
BLANK = 0
CODES = torch.randn(ALPHABET, 8, generator=torch.Generator().manual_seed(7)) * 2


def make_utterance():
    length = int(torch.randint(2, 5, ()))
    text = torch.randint(1, ALPHABET, (length,))
    frames = []
    for symbol in text:
        repeat = int(torch.randint(3, 6, ()))
        frames.append(CODES[symbol].repeat(repeat, 1))
        frames.append(CODES[BLANK].repeat(1, 1))
    audio = torch.cat(frames)
    return audio + 0.2 * torch.randn_like(audio), text


def collate(items):
    items.sort(key=lambda item: len(item[0]), reverse=True)
    audio = pad_sequence([a for a, _ in items], batch_first=True)
    lengths = torch.tensor([len(a) for a, _ in items])
    targets = torch.cat([t for _, t in items])
    target_lengths = torch.tensor([len(t) for _, t in items])
    return audio, lengths, targets, target_lengths


class Recogniser(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(8, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.rnn = nn.LSTM(hidden, hidden, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
        self.out = nn.Linear(2 * hidden, ALPHABET)

    def forward(self, audio, lengths):
        packed = pack_padded_sequence(self.front(audio), lengths, batch_first=True)
        hidden, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(hidden).log_softmax(-1)


def greedy(log_probs, lengths):
    texts = []
    for row, length in zip(log_probs.argmax(-1), lengths, strict=True):
        symbols = torch.unique_consecutive(row[:length])
        texts.append(symbols[symbols != BLANK].tolist())
    return texts


def evaluate(model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for audio, lengths, targets, target_lengths in loader:
            guesses = greedy(model(audio, lengths), lengths)
            truths = [t.tolist() for t in targets.split(target_lengths.tolist())]
            right += sum(g == t for g, t in zip(guesses, truths, strict=True))
            total += len(truths)
    model.train()
    return right / total


def main():
    torch.manual_seed(6)
    train = DataLoader([make_utterance() for _ in range(192)], batch_size=16, shuffle=True, collate_fn=collate)
    valid = DataLoader([make_utterance() for _ in range(32)], batch_size=16, collate_fn=collate)
    model = Recogniser()
    criterion = nn.CTCLoss(blank=BLANK, zero_infinity=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(4):
        running = 0.0
        for audio, lengths, targets, target_lengths in train:
            log_probs = model(audio, lengths).transpose(0, 1)
            loss = criterion(log_probs, targets, lengths, target_lengths)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5)
            optimizer.step()
            running += loss.item()
        print(f"epoch {epoch} ctc {running / len(train):.3f} exact {evaluate(model, valid):.2f}")


if __name__ == "__main__":
    main()
