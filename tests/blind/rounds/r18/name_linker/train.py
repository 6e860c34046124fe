"""Entity linking: choose among the retrieved candidates of a mention, from the context, the entity vector, its type, its links and its retrieval rank."""
import json
import sys

import numpy as np
import torch
from torch import nn


class Linker(nn.Module):
    def __init__(self, n_words, n_types, vectors, max_rank, rank_dim, d=32):
        super().__init__()
        self.words = nn.EmbeddingBag(n_words, d, mode="mean")
        self.vectors = nn.Embedding.from_pretrained(vectors, freeze=True)
        self.entity = nn.Linear(vectors.shape[1], d)
        self.kind = nn.Embedding(n_types, d)
        self.rank = nn.Embedding(max_rank, rank_dim)
        self.prior = nn.Sequential(nn.Linear(rank_dim + 1, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, ctx, ent, kind, links):
        c = self.words(ctx)
        e = self.entity(self.vectors(ent)) + self.kind(kind)
        rank = self.rank(torch.arange(ent.shape[1])).expand(len(ent), -1, -1)
        prior = self.prior(torch.cat([rank, links.unsqueeze(-1)], -1)).squeeze(-1)
        return (e * c.unsqueeze(1)).sum(-1) + prior


def main(root):
    cfg = json.load(open(f"{root}/linker.json"))
    kb = json.load(open(f"{root}/entities.json"))
    vectors = torch.from_numpy(np.load(f"{root}/entity_vectors.npy"))
    torch.manual_seed(cfg["seed"])
    qid = {q: i for i, q in enumerate(kb)}
    types = sorted({v["type"] for v in kb.values()})
    kind_of = torch.tensor([types.index(v["type"]) for v in kb.values()])
    links_of = torch.log(torch.tensor([float(v["links"]) for v in kb.values()]))
    links_of = (links_of - links_of.mean()) / links_of.std()
    train, test = ([json.loads(s) for s in open(f"{root}/{n}.jsonl")] for n in ("train", "test"))
    vocab = {w: i + 1 for i, w in enumerate(sorted({w for m in train for w in m["context"].split()}))}

    def tensors(ms):
        ctx = torch.tensor([[vocab.get(w, 0) for w in m["context"].split()] for m in ms])
        ent = torch.tensor([[qid[q] for q in m["candidates"]] for m in ms])
        gold = torch.tensor([m["candidates"].index(m["gold"]) for m in ms])
        return ctx, ent, kind_of[ent], links_of[ent], gold

    data, held = tensors(train), tensors(test)
    net = Linker(len(vocab) + 1, len(types), vectors, data[1].shape[1], cfg["rank_embedding"])
    opt = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        tot = 0.0
        for i in torch.randperm(len(train)).split(cfg["batch"]):
            ctx, ent, kind, links, gold = (v[i] for v in data)
            loss = nn.functional.cross_entropy(net(ctx, ent, kind, links), gold)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(i)
        print(f"epoch {epoch} loss {tot / len(train):.4f}")
    with torch.no_grad():
        guess = net(*held[:4]).argmax(1)
    first = (held[4] == 0).float().mean().item()
    print(f"test accuracy {(guess == held[4]).float().mean().item():.4f} (always the first candidate: {first:.4f})")


if __name__ == "__main__":
    main(sys.argv[1])
