import os
import random
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

SEQ, BATCH, HIDDEN = 64, 20, 80


def chronicle(n, rnd):
    who = ["the old ferryman", "a miller from the valley", "the young queen", "her brother", "a travelling smith", "the keeper of the tower"]
    did = ["walked along", "looked across", "remembered", "never returned to", "sang about", "waited beside"]
    what = ["the frozen river", "a field of barley", "the burning bridge", "the garden behind the wall", "an empty harbour"]
    when = ["before the winter", "on the third evening", "when the bells were ringing", "without a word", "as the snow began to fall"]
    out = []
    for _ in range(n):
        s = f"{rnd.choice(who)} {rnd.choice(did)} {rnd.choice(what)}"
        s += rnd.choice([f" {rnd.choice(when)}", "", f", and {rnd.choice(who)} {rnd.choice(did)} {rnd.choice(what)}"])
        out.append(s[0].upper() + s[1:] + ".")
    return " ".join(out)


class CharGRU(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.emb = nn.Embedding(vocab, 32)
        self.rnn = nn.GRU(32, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, vocab)

    def forward(self, x, h=None):
        y, h = self.rnn(self.emb(x), h)
        return self.out(y), h


def bits_per_char(model, ids):
    model.eval()
    with torch.no_grad():
        logits, _ = model(ids[None, :-1])
        nll = F.cross_entropy(logits[0], ids[1:]).item()
    model.train()
    return nll / 0.6931471805599453


def fit(ids, vocab, steps, ckpt):
    model = CharGRU(vocab)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    first = 0
    if os.path.exists(ckpt):
        saved = torch.load(ckpt)
        model = CharGRU(vocab)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
        print(f"resuming at step {first}")
    for step in range(first, steps):
        at = torch.randint(0, len(ids) - SEQ - 1, (BATCH,))
        chunk = torch.stack([ids[a:a + SEQ + 1] for a in at.tolist()])
        logits, _ = model(chunk[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {loss.item():.4f}")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": steps}, ckpt)
    return model


def main():
    torch.manual_seed(1)
    rnd = random.Random(1)
    text, held = chronicle(1500, rnd), chronicle(60, rnd)
    chars = sorted(set(text))
    ids = torch.tensor([chars.index(c) for c in text])
    held = torch.tensor([chars.index(c) for c in held])
    with tempfile.TemporaryDirectory() as d:
        ckpt = os.path.join(d, "last.pt")
        # the queue ends jobs after 50 steps
        for limit in (50, 100, 150):
            model = fit(ids, len(chars), limit, ckpt)
    print(f"held-out bits per character: {bits_per_char(model, held):.4f}")


if __name__ == "__main__":
    main()
