# A tiny character model with attention written out by hand; learns a small made-up grammar.
import argparse
import random
import torch

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=240)
p.add_argument("--dim", type=int, default=32)
p.add_argument("--heads", type=int, default=4)
p.add_argument("--length", type=int, default=24)
p.add_argument("--seed", type=int, default=3)
args = p.parse_args()
torch.manual_seed(args.seed)
rnd = random.Random(args.seed)

words = ["kala", "mira", "toru", "beno", "sidu", "lope"]
follow = {w: words[(i + 2) % len(words)] for i, w in enumerate(words)}
alphabet = sorted(set("".join(words)) | {" "})
code = {c: i for i, c in enumerate(alphabet)}


def text(count):
    w = rnd.choice(words)
    out = []
    for _ in range(count):
        out.append(w)
        w = follow[w] if rnd.random() < 0.95 else rnd.choice(words)
    return " ".join(out)


stream = torch.tensor([code[c] for c in text(3000)])
D, H, L = args.dim, args.heads, args.length


def weight(*shape):
    return (torch.randn(*shape) * shape[0] ** -0.5).requires_grad_()


P = {"tok": weight(len(alphabet), D), "pos": weight(L, D), "out": weight(D, len(alphabet))}
for layer in range(2):
    P[f"qkv{layer}"] = weight(D, 3 * D)
    P[f"proj{layer}"] = weight(D, D)
    P[f"up{layer}"] = weight(D, 3 * D)
    P[f"down{layer}"] = weight(3 * D, D)


def norm(x):
    return torch.nn.functional.layer_norm(x, (D,))


def attend(x, layer):
    B, T, _ = x.shape
    q, k, v = torch.einsum("btd,de->bte", x, P[f"qkv{layer}"]).view(B, T, 3, H, D // H).unbind(2)
    s = torch.einsum("bqhd,bkhd->bhqk", q, k) / (D // H) ** 0.5
    visible = torch.ones(T, T).tril().bool()
    s = s.masked_fill(~visible, -1e9)
    z = torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v).reshape(B, T, D)
    return z @ P[f"proj{layer}"]


def logits(idx):
    x = P["tok"][idx] + P["pos"][: idx.shape[1]]
    for layer in range(2):
        x = x + attend(norm(x), layer)
        x = x + torch.relu(norm(x) @ P[f"up{layer}"]) @ P[f"down{layer}"]
    return norm(x) @ P["out"]


opt = torch.optim.Adam(P.values(), lr=3e-3)
for step in range(args.steps):
    start = torch.randint(0, len(stream) - L - 1, (32,))
    window = stream[start[:, None] + torch.arange(L + 1)]
    loss = torch.nn.functional.cross_entropy(logits(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 0:
        print(step, f"{loss.item():.3f}")

# continue prompts and look how many complete words come out valid
good = total = 0
with torch.no_grad():
    ids = torch.tensor([[code[c] for c in (w + " " + follow[w] + " ")] for w in words])
    for _ in range(40):
        nxt = logits(ids[:, -L:])[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, nxt], 1)
for row, first in zip(ids, words):
    want = follow[follow[first]]
    for got in "".join(alphabet[i] for i in row)[10:50].split(" ")[:8]:
        good += got == want
        total += 1
        want = follow[want]
print(f"generated words right: {good / total:.3f}")
