"""Link prediction on a small synthetic knowledge graph with translated embeddings."""
import torch
from torch import nn
from torch.nn import functional as F
from grid_graph import build_graph


class TransE(nn.Module):
    def __init__(self, num_entities, num_relations, dim=12):
        super().__init__()
        self.entity = nn.Embedding(num_entities, dim)
        self.relation = nn.Embedding(num_relations, dim)
        nn.init.uniform_(self.entity.weight, -0.5, 0.5)
        nn.init.uniform_(self.relation.weight, -0.5, 0.5)

    def distance(self, h, r, t):
        return (self.entity(h) + self.relation(r) - self.entity(t)).norm(dim=-1)


class Corrupter:
    def __init__(self, num_entities, num_relations):
        self.num_entities = num_entities
        self.num_relations = num_relations

    def __call__(self, triples):
        h, r, t = triples.clone().unbind(1)
        replacement = torch.randint(0, self.num_entities, h.shape)
        coin = torch.rand(h.shape) < 0.5
        return torch.where(coin, replacement, h), r, torch.where(coin, t, replacement)


def mean_reciprocal_rank(model, triples, num_entities):
    with torch.no_grad():
        h, r, t = triples.unbind(1)
        everyone = torch.arange(num_entities)
        d = model.distance(h[:, None], r[:, None], everyone[None])
        rank = (d < d.gather(1, t[:, None])).sum(1) + 1
    return (1.0 / rank).mean().item()


def main():
    torch.manual_seed(31)
    triples, n_ent, n_rel = build_graph()
    triples = triples[torch.randperm(len(triples))]
    held, known = triples[:120], triples[120:]
    model = TransE(n_ent, n_rel)
    corrupt = Corrupter(n_ent, n_rel)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(200):
        total = 0.0
        for batch in known[torch.randperm(len(known))].split(100):
            pos = model.distance(*batch.unbind(1))
            neg = model.distance(*corrupt(batch))
            loss = F.relu(1.0 + pos - neg).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        if epoch % 50 == 0:
            print(f"epoch {epoch:3d} margin loss {total:.3f}")
    print(f"held-out MRR {mean_reciprocal_rank(model, held, n_ent):.4f}")


if __name__ == "__main__":
    main()
