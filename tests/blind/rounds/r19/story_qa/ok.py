"""Memory network on short stories: "where is <person> now ?"."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PEOPLE = "mary john sandra daniel julie bill fred emma".split()
PLACES = "kitchen garden office bathroom hallway bedroom cinema park school station".split()
VERBS = "went moved travelled walked ran".split()
TEMPLATES = ["where is {} now ?", "do you know where {} could be ?", "tell me the place {} is in ."]


def tokenize(text):
    return text.split()


def make_story(rng, n_facts):
    facts, where = [], {}
    people = rng.sample(PEOPLE, n_facts)
    for person in people:
        place = rng.choice(PLACES)
        where[person] = place
        facts.append(f"{person} {rng.choice(VERBS)} to the {place}")
    who = rng.choice(people)
    return facts, rng.choice(TEMPLATES).format(who), where[who]


class Vocab:
    def __init__(self):
        self.index = {"<pad>": 0}

    def add(self, text):
        return torch.tensor([self.index.setdefault(w, len(self.index)) for w in tokenize(text)])

    def __len__(self):
        return len(self.index)


class StoryDataset(Dataset):
    def __init__(self, n, vocab, seed, n_facts=6):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            facts, question, answer = make_story(rng, n_facts)
            story = pad_sequence([vocab.add(f) for f in facts], batch_first=True)
            self.items.append((story, vocab.add(question), PLACES.index(answer)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    stories, questions, answers = zip(*batch)
    length = max(len(q) for q in questions)
    padded = torch.zeros(len(questions), length, dtype=torch.long)
    for i, q in enumerate(questions):
        padded[i, length - len(q):] = q
    return torch.stack(stories), padded, torch.tensor(answers)


class MemoryReader(nn.Module):
    def __init__(self, n_words, n_answers, dim=64):
        super().__init__()
        self.embed = nn.Embedding(n_words, dim, padding_idx=0)
        self.question_rnn = nn.LSTM(dim, dim, batch_first=True)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.answer = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, n_answers))

    def forward(self, story, question):
        memory = self.embed(story).sum(2)
        out, _ = self.question_rnn(self.embed(question))
        q = out[:, -1]
        score = torch.einsum("bd,btd->bt", q, self.key(memory)) / q.shape[-1] ** 0.5
        read = torch.einsum("bt,btd->bd", F.softmax(score, dim=-1), self.value(memory))
        return self.answer(torch.cat([q, read], dim=-1))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = total = 0
    for story, question, answer in loader:
        right += (model(story, question).argmax(-1) == answer).sum().item()
        total += len(answer)
    return right / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(args.seed)

    vocab = Vocab()
    train = StoryDataset(2400, vocab, args.seed)
    dev = StoryDataset(800, vocab, args.seed + 1)
    train_loader = DataLoader(train, args.batch_size, shuffle=True, collate_fn=collate)
    dev_loader = DataLoader(dev, args.batch_size, collate_fn=collate)

    model = MemoryReader(len(vocab), len(PLACES))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for story, question, answer in train_loader:
            loss = F.cross_entropy(model(story, question), answer)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item() * len(answer)
        print(f"epoch {epoch}: loss {total / len(train):.4f} dev accuracy {evaluate(model, dev_loader):.4f}", flush=True)


if __name__ == "__main__":
    main()
