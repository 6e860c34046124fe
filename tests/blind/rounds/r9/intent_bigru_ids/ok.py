"""Intent classifier for a voice assistant: bidirectional GRU over templated utterances."""
import argparse
import random
from collections import Counter

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

TEMPLATES = {
    "set_alarm": ["wake me up at {t}", "set an alarm for {t}", "i need to get up by {t} {d}"],
    "weather": ["will it rain {d} in {c}", "what is the forecast for {c} {d}", "how cold is it in {c}"],
    "play_music": ["play some {g} music", "put on {g} songs please", "i want to hear {g}"],
    "book_flight": ["book a flight to {c} {d}", "find me a plane ticket from {c} to {c}", "fly me to {c} at {t}"],
    "find_food": ["where can i eat {f} in {c}", "order {f} for {t}", "any good {f} place near {c}"],
    "reminder": ["remind me to buy {f} {d}", "do not let me forget the meeting at {t}", "note that i call mom {d}"],
    "traffic": ["how long is the drive to {c}", "is there a jam on the way to {c}", "best road to {c} at {t}"],
    "translate": ["how do you say {f} in french", "translate {g} to german", "what does {f} mean in spanish"],
}
SLOTS = {
    "t": ["six", "seven thirty", "noon", "ten", "midnight", "half past four"],
    "d": ["today", "tomorrow", "on monday", "next friday", "this weekend"],
    "c": ["paris", "boston", "oslo", "cairo", "lima", "tokyo", "rome"],
    "g": ["jazz", "rock", "folk", "techno", "opera"],
    "f": ["pizza", "sushi", "soup", "tacos", "noodles", "bread"],
}
FILLERS = ["please", "hey", "um", "ok", "could you", "now", "thanks", "well"]


def utterance(rng, intent):
    words = rng.choice(TEMPLATES[intent]).split()
    words = [rng.choice(SLOTS[w[1]]) if w[0] == "{" else w for w in words]
    words = [w for w in " ".join(words).split() if rng.random() > 0.15]
    for _ in range(rng.randrange(3)):
        words.insert(rng.randrange(len(words) + 1), rng.choice(FILLERS))
    return " ".join(words)


def make_split(rng, n, seen):
    rows = []
    while len(rows) < n:
        intent = rng.choice(list(TEMPLATES))
        text = utterance(rng, intent)
        if text not in seen:
            seen.add(text)
            rows.append((text, intent))
    return rows


class IntentDataset(Dataset):
    def __init__(self, rows, vocab, labels=None, max_len=14):
        if labels is None:
            labels = {}
            for _, intent in rows:
                labels.setdefault(intent, len(labels))
        self.labels = labels
        self.x = torch.zeros(len(rows), max_len, dtype=torch.long)
        for i, (text, _) in enumerate(rows):
            ids = [vocab.get(w, 1) for w in text.split()][:max_len]
            self.x[i, :len(ids)] = torch.tensor(ids)
        self.y = torch.tensor([labels[intent] for _, intent in rows])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class IntentNet(nn.Module):
    def __init__(self, n_words, n_intents, dim=32):
        super().__init__()
        self.emb = nn.Embedding(n_words, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(2 * dim, n_intents))

    def forward(self, x):
        mask = x.ne(0).unsqueeze(-1)
        h, _ = self.rnn(self.emb(x))
        return self.head((h * mask).sum(1) / mask.sum(1).clamp(min=1))


def evaluate(model, loader, loss_fn):
    model.eval()
    loss = hit = n = 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss += loss_fn(out, y).item() * len(y)
            hit += (out.argmax(1) == y).sum().item()
            n += len(y)
    return loss / n, hit / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--lr", type=float, default=8e-3)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)

    seen = set()
    train_rows, valid_rows = make_split(rng, 1200, seen), make_split(rng, 400, seen)
    counts = Counter(w for text, _ in train_rows for w in text.split())
    vocab = {w: i + 2 for i, (w, _) in enumerate(counts.most_common())}
    train_set = IntentDataset(train_rows, vocab)
    valid_set = IntentDataset(valid_rows, vocab, train_set.labels)
    train_loader = DataLoader(train_set, batch_size=48, shuffle=True)
    valid_loader = DataLoader(valid_set, batch_size=200)

    model = IntentNet(len(vocab) + 2, len(train_set.labels))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for x, y in train_loader:
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            running += loss.item()
        vloss, acc = evaluate(model, valid_loader, loss_fn)
        print(f"epoch {epoch} train {running / len(train_loader):.3f} valid {vloss:.3f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
