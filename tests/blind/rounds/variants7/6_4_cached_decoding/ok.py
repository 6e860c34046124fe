"""Decoder-only model that learns to reverse a code; generation uses a key/value cache."""
import torch
import torch.nn.functional as F
from torch import nn

DIGITS, LENGTH = 10, 5
SEP = DIGITS
VOCAB = DIGITS + 1


def codes(n, seed):
    g = torch.Generator().manual_seed(seed)
    src = torch.randint(0, DIGITS, (n, LENGTH), generator=g)
    sep = torch.full((n, 1), SEP)
    return torch.cat([src, sep, src.flip(1)], dim=1)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, past=None):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        att = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.proj(att.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.norm2(x)), (k, v)


class CodeModel(nn.Module):
    def __init__(self, dim=48, heads=4, layers=2, max_len=2 * LENGTH + 1):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, tokens, cache=None):
        start = 0 if cache is None else cache[0][0].shape[2]
        positions = torch.arange(start, start + tokens.shape[1])
        x = self.tok(tokens) + self.pos(positions)
        new = []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, None if cache is None else cache[i])
            new.append(kv)
        return self.head(self.norm(x)), new

    @torch.no_grad()
    def generate(self, prompt, steps):
        self.eval()
        logits, cache = self(prompt)
        out = [logits[:, -1].argmax(-1)]
        for _ in range(steps - 1):
            logits, cache = self(out[-1][:, None], cache)
            out.append(logits[:, -1].argmax(-1))
        return torch.stack(out, dim=1)


def main():
    torch.manual_seed(0)
    train, test = codes(6000, 1), codes(500, 2)
    model = CodeModel()
    epochs, batch = 5, 60
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=epochs * len(train) // batch)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(train)).split(batch):
            seq = train[idx]
            logits, _ = model(seq[:, :-1])
            loss = F.cross_entropy(logits[:, LENGTH:].reshape(-1, VOCAB), seq[:, LENGTH + 1:].reshape(-1))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch} loss {total / len(train):.4f}")
    answer = model.generate(test[:, :LENGTH + 1], LENGTH)
    match = (answer == test[:, LENGTH + 1:]).all(1).float().mean().item()
    print(f"exact_match={match:.4f}")


if __name__ == "__main__":
    main()
