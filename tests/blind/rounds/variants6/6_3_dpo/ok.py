"""Preference tuning (DPO) of a small sequence model of reply templates."""
import copy

import torch
from torch import nn
import torch.nn.functional as F

VOCAB, LENGTH, BOS = 12, 8, 12


def base_sequences(n, gen):
    seq = torch.zeros(n, LENGTH, dtype=torch.long)
    seq[:, 0] = torch.randint(0, VOCAB, (n,), generator=gen)
    for t in range(1, LENGTH):
        jump = torch.randint(0, 4, (n,), generator=gen)
        seq[:, t] = (seq[:, t - 1] + jump) % VOCAB
    return seq


def true_quality(seq):
    polite = ((seq == 3) | (seq == 7)).float().sum(1)
    repeats = (seq[:, 1:] == seq[:, :-1]).float().sum(1)
    return polite - 0.7 * repeats


class Lm(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.emb = nn.Embedding(VOCAB + 1, 24)
        self.rnn = nn.GRU(24, width, batch_first=True)
        self.out = nn.Linear(width, VOCAB)

    def forward(self, tokens):
        return self.out(self.rnn(self.emb(tokens))[0])


def with_bos(seq):
    return torch.cat([torch.full((len(seq), 1), BOS), seq], 1)


def sequence_logp(model, seq):
    logp = model(with_bos(seq)).log_softmax(-1)[:, :-1]
    return logp.gather(2, seq.unsqueeze(2)).squeeze(2).sum(1)


@torch.no_grad()
def generate(model, n):
    tokens = torch.full((n, 1), BOS)
    for _ in range(LENGTH):
        prob = model(tokens)[:, -1].softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(prob, 1)], 1)
    return tokens[:, 1:]


def pretrain(model, data, steps):
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(steps):
        seq = data[torch.randint(0, len(data), (96,))]
        logits = model(with_bos(seq[:, :-1]))
        loss = F.cross_entropy(logits.flatten(0, 1), seq.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"pretraining loss {loss.item():.3f}")


def make_pairs(model, n):
    a, b = generate(model, n), generate(model, n)
    p = torch.sigmoid(2.0 * (true_quality(a) - true_quality(b)))
    first = (torch.rand(n) < p).unsqueeze(1)
    return {"chosen": torch.where(first, a, b), "rejected": torch.where(first, b, a)}


def dpo_loss(policy, ref, batch, beta):
    pi_c = sequence_logp(policy, batch["chosen"])
    pi_r = sequence_logp(policy, batch["rejected"])
    with torch.no_grad():
        ref_c = sequence_logp(ref, batch["chosen"])
        ref_r = sequence_logp(ref, batch["rejected"])
    margin = (pi_c - ref_c) - (pi_r - ref_r)
    return -F.logsigmoid(beta * margin).mean(), (margin > 0).float().mean().item()


def main(beta=0.3, steps=240, batch=96):
    torch.manual_seed(27)
    gen = torch.Generator().manual_seed(27)
    policy = Lm()
    pretrain(policy, base_sequences(4000, gen), 200)
    ref = copy.deepcopy(policy).eval()
    for p in ref.parameters():
        p.requires_grad_(False)
    pairs = make_pairs(ref, 4000)
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for step in range(steps):
        idx = torch.randint(0, 4000, (batch,))
        loss, acc = dpo_loss(policy, ref, {k: v[idx] for k, v in pairs.items()}, beta)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 60 == 0:
            print(f"step {step:3d} dpo loss {loss.item():.4f} margin accuracy {acc:.3f}")
    before, after = (true_quality(generate(m, 1500)).mean().item() for m in (ref, policy))
    print(f"quality before {before:.3f} after {after:.3f}")


if __name__ == "__main__":
    main()
