# char-level LSTM on recipe instructions
import math
import random
import time

import torch
import torch.nn as nn

random.seed(1234)
torch.manual_seed(1234)

batch_size = 32
seq_len = 48
hidden = 96
iters = 260
lr = 4e-3

VERBS = ["chop", "peel", "slice", "grate", "wash", "season", "roast", "simmer", "whisk", "fold in", "blanch"]
FOODS = ["carrots", "onions", "potatoes", "tomatoes", "parsley", "mushrooms", "chickpeas", "spinach", "leeks",
         "aubergines", "cream", "butter", "lentils", "coriander"]
TOOLS = ["a large pan", "a small bowl", "the oven", "a blender", "the casserole", "a wooden board"]
ENDS = ["until golden brown", "until soft", "and set aside", "and serve warm", "while stirring constantly",
        "until the liquid has evaporated"]


def sentence():
    k = random.random()
    if k < 0.4:
        return f"{random.choice(VERBS)} the {random.choice(FOODS)} in {random.choice(TOOLS)} {random.choice(ENDS)}."
    if k < 0.7:
        n = random.randint(2, 9)
        return f"{random.choice(VERBS)} {n} handfuls of {random.choice(FOODS)} and {random.choice(FOODS)} for {n * 5} minutes."
    return f"then {random.choice(VERBS)} the {random.choice(FOODS)}, {random.choice(VERBS)} the {random.choice(FOODS)} {random.choice(ENDS)}."


text = " ".join(sentence() for _ in range(2500))
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
itos = dict(enumerate(chars))
data = torch.tensor([stoi[c] for c in text])
n = int(0.9 * len(data))
train_data, val_data = data[:n], data[n:]
print(f"{len(data)} chars, vocab {len(chars)}")


def get_batch(split):
    d = train_data if split == "train" else val_data
    ix = torch.randint(len(d) - seq_len - 1, (batch_size,))
    x = torch.stack([d[i:i + seq_len] for i in ix])
    y = torch.stack([d[i + 1:i + seq_len + 1] for i in ix])
    return x, y


class CharRNN(nn.Module):
    def __init__(self, vocab, emb=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.rnn = nn.LSTM(emb, hidden)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.out(self.drop(h))


criterion = nn.CrossEntropyLoss()


@torch.no_grad()
def estimate(split, k=10):
    model.eval()
    tot = 0.0
    for _ in range(k):
        x, y = get_batch(split)
        logits = model(x)
        tot += criterion(logits.reshape(-1, len(chars)), y.reshape(-1)).item()
    model.train()
    return tot / k / math.log(2)


@torch.no_grad()
def sample(prompt, length=100, temp=0.7):
    model.eval()
    ids = [stoi[c] for c in prompt]
    for _ in range(length):
        logits = model(torch.tensor([ids[-seq_len:]]))
        p = torch.softmax(logits[0, -1] / temp, -1)
        ids.append(torch.multinomial(p, 1).item())
    model.train()
    return "".join(itos[i] for i in ids)


model = CharRNN(len(chars))
optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, iters)
t0 = time.time()
for it in range(1, iters + 1):
    xb, yb = get_batch("train")
    logits = model(xb)
    loss = criterion(logits.reshape(-1, len(chars)), yb.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    if it % 65 == 0:
        print(f"iter {it}: train {estimate('train'):.3f} bpc, val {estimate('val'):.3f} bpc ({time.time() - t0:.1f}s)")

print(sample("then "))
print(f"val_bpc {estimate('val', 30):.4f}")
