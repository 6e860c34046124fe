"""Self-supervised embedding of microscope fields from two shots of the same spot (NT-Xent)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(17)
N_CONTENT, N_NUISANCE, DIM, CLASSES = 6, 10, 48, 8
MIX_C = torch.randn(N_CONTENT, DIM)
MIX_N = torch.randn(N_NUISANCE, DIM)
PROTO = 1.6 * torch.randn(CLASSES, N_CONTENT)


def shots(n):
    """n spots, two shots each: tissue content is shared, light and stain differ."""
    cls = torch.randint(0, CLASSES, (n,))
    content = PROTO[cls] + 0.6 * torch.randn(n, N_CONTENT)

    def shoot():
        return content @ MIX_C + 3.0 * torch.randn(n, N_NUISANCE) @ MIX_N + 0.1 * torch.randn(n, DIM)

    return shoot(), shoot(), cls


class Encoder(nn.Module):
    def __init__(self, out=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(DIM, 64), nn.ReLU(), nn.Linear(64, out))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def nt_xent(z1, z2, tau=0.2):
    n = z1.size(0)
    z = torch.cat([z1, z2], dim=0)
    sim = z @ z.t() / tau
    sim.fill_diagonal_(float("-inf"))
    partner = (torch.arange(2 * n) + n) % (2 * n)
    return F.cross_entropy(sim, partner)


@torch.no_grad()
def neighbour_accuracy(enc, scale, n=800):
    a, _, ca = shots(n)
    b, _, cb = shots(n)
    nearest = (enc(b / scale) @ enc(a / scale).t()).topk(5, dim=1).indices
    return (ca[nearest].mode(dim=1).values == cb).float().mean().item()


encoder = Encoder()
opt = torch.optim.Adam(encoder.parameters(), lr=3e-3)
a, b, _ = shots(2000)
scale = a.std()
for epoch in range(14):
    mean = 0.0
    for rows in torch.randperm(len(a)).split(125):
        loss = nt_xent(encoder(a[rows] / scale), encoder(b[rows] / scale))
        opt.zero_grad()
        loss.backward()
        opt.step()
        mean += loss.item() / 16
    if epoch % 4 == 1:
        print(f"epoch {epoch} loss {mean:.3f}")
print(f"5-nearest-neighbour accuracy {neighbour_accuracy(encoder, scale):.3f}")
