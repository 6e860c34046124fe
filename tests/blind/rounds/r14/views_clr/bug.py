"""Self-supervised embedding of products from two noisy views, judged by nearest neighbours."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(17)
N_KIND, SIGNAL, NUISANCE = 10, 6, 26
rotation, _ = torch.linalg.qr(torch.randn(SIGNAL + NUISANCE, SIGNAL + NUISANCE))
kind_centre = torch.randn(N_KIND, SIGNAL) * 1.2


def catalogue(n):
    kind = torch.randint(0, N_KIND, (n,))
    signal = kind_centre[kind] + 0.25 * torch.randn(n, SIGNAL)
    return signal, kind


def view(signal):
    noise = 1.6 * torch.randn(len(signal), NUISANCE)
    return torch.cat([signal + 0.15 * torch.randn_like(signal), noise], 1) @ rotation


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(SIGNAL + NUISANCE, 96), nn.ReLU(), nn.Linear(96, 32))
        self.proj = nn.Sequential(nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x):
        h = self.trunk(x)
        return h, F.normalize(self.proj(h), dim=-1)


def nt_xent(z_a, z_b, tau=0.2):
    n = z_a.shape[0]
    z = torch.cat([z_a, z_b], dim=0)
    sim = z @ z.T / tau
    sim.fill_diagonal_(float("-inf"))
    positive = torch.arange(2 * n) ^ 1
    return F.cross_entropy(sim, positive)


@torch.no_grad()
def knn_accuracy(enc, sig_ref, kind_ref, sig_query, kind_query, k=5):
    enc.eval()
    ref = F.normalize(enc(view(sig_ref))[0], dim=-1)
    query = F.normalize(enc(view(sig_query))[0], dim=-1)
    near = (query @ ref.T).topk(k, dim=1).indices
    votes = F.one_hot(kind_ref[near], N_KIND).sum(1)
    return (votes.argmax(1) == kind_query).float().mean().item()


def main():
    sig, _ = catalogue(3000)
    sig_ref, kind_ref = catalogue(1000)
    sig_q, kind_q = catalogue(600)
    enc = Encoder()
    opt = torch.optim.Adam(enc.parameters(), lr=2e-3)
    print(f"before training: knn {knn_accuracy(enc, sig_ref, kind_ref, sig_q, kind_q):.3f}")
    for epoch in range(12):
        enc.train()
        running, n_batches = 0.0, 0
        for idx in torch.randperm(len(sig)).split(128):
            _, za = enc(view(sig[idx]))
            _, zb = enc(view(sig[idx]))
            loss = nt_xent(za, zb)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running += loss.item()
            n_batches += 1
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1}: contrastive loss {running / n_batches:.3f}")
    print(f"after training: knn {knn_accuracy(enc, sig_ref, kind_ref, sig_q, kind_q):.3f}")


main()
