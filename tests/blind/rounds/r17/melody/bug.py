import math
import random

import torch
import torch.nn as nn

SCALE = [0, 2, 4, 5, 7, 9, 11]
CHORDS = {"I": [0, 2, 4], "IV": [3, 5, 0], "V": [4, 6, 1], "vi": [5, 0, 2]}
FORMS = [["I", "vi", "IV", "V"], ["I", "IV", "V", "I"], ["vi", "IV", "I", "V"]]
REST, BAR, START = "rest", "|", "<s>"


def tune():
    """Two times four bars; chord notes on the beats, passing notes between, first half repeated with another ending."""
    key, form = random.choice([0, 5, 7]), random.choice(FORMS)
    half = []
    for chord in form:
        here = random.choice(CHORDS[chord])
        for beat in range(2):
            note = here if beat == 0 else random.choice(CHORDS[chord])
            half.append(str(key + SCALE[note]))
            step = (note + random.choice([1, -1])) % 7
            half.append(REST if random.random() < 0.1 else str(key + SCALE[step]))
        half.append(BAR)
    return [START] + half + half[:-5] + [str(key)] * 2 + [REST, REST, BAR]


class TuneModel(nn.Module):
    def __init__(self, n_tokens, d=64):
        super().__init__()
        self.emb = nn.Embedding(n_tokens, 32)
        self.rnn = nn.GRU(32, d, batch_first=True)
        self.out = nn.Linear(d, n_tokens)

    def forward(self, x, h=None):
        y, h = self.rnn(self.emb(x), h)
        return self.out(y), h


def next_token_loss(model, x):
    logits, _ = model(x[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())


@torch.no_grad()
def compose(model, names, n=22):
    tok, h, out = torch.tensor([[names.index(START)]]), None, []
    for _ in range(n):
        logits, h = model(tok, h)
        tok = torch.multinomial(logits[:, -1].softmax(-1), 1)
        out.append(names[tok.item()])
    return " ".join(out)


def main():
    random.seed(10)
    torch.manual_seed(10)
    tunes = [tune() for _ in range(1200)]
    names = sorted({t for x in tunes for t in x})
    data = torch.tensor([[names.index(t) for t in x] for x in tunes])
    train, test = data[:1000], data[1000:]
    model = TuneModel(len(names))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
    for epoch in range(12):
        total = 0.0
        for idx in torch.randperm(len(train)).split(50):
            loss = next_token_loss(model, train[idx])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(idx)
            scheduler.step()
        if epoch % 2 == 1:
            print(f"epoch {epoch + 1} loss {total / len(train):.4f}")
    with torch.no_grad():
        print(f"test perplexity {math.exp(next_token_loss(model, test).item()):.3f}")
    print(compose(model, names))


if __name__ == "__main__":
    main()
