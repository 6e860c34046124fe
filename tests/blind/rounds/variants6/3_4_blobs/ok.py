import torch
from torch import nn
import torch.nn.functional as F

T, SIDE = 200, 6


def blob_images(n, gen):
    """6x6 images with one bright spot of random place and width."""
    yy, xx = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    cy, cx = (1.2 + 2.6 * torch.rand(n, 1, 1, generator=gen) for _ in range(2))
    w = 0.8 + 0.4 * torch.rand(n, 1, 1, generator=gen)
    img = torch.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / (2 * w ** 2))
    return (2 * img - 1).flatten(1)


def cosine_alpha_bar(steps, s=0.008):
    u = torch.arange(steps + 1) / steps
    f = torch.cos((u + s) / (1 + s) * torch.pi / 2) ** 2
    return (f / f[0])[1:].clamp(1e-4, 0.9999)


class Net(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.register_buffer("freq", torch.logspace(0, 1.4, 12))
        self.emb = nn.Sequential(nn.Linear(24, width), nn.SiLU())
        self.a = nn.Linear(SIDE * SIDE, width)
        self.b = nn.Linear(width, width)
        self.c = nn.Linear(width, SIDE * SIDE)

    def forward(self, x, t):
        ang = (t.float() / T)[:, None] * self.freq
        e = self.emb(torch.cat([ang.sin(), ang.cos()], 1))
        h = F.silu(self.a(x) + e)
        h = F.silu(self.b(h) + e)
        return self.c(h)


class Diffusion:
    def __init__(self, net):
        self.net, self.ab = net, cosine_alpha_bar(T)

    def coef(self, t):
        ab = self.ab[t].unsqueeze(-1)
        return ab.sqrt(), (1 - ab).sqrt()

    def loss(self, x0):
        t = torch.randint(0, T, (len(x0),))
        a, s = self.coef(t)
        eps = torch.randn_like(x0)
        v = a * eps - s * x0
        return F.mse_loss(self.net(a * x0 + s * eps, t), v)

    @torch.no_grad()
    def ddim(self, n, stride=8):
        x = torch.randn(n, SIDE * SIDE)
        times = list(range(T - 1, -1, -stride))
        for i, cur in enumerate(times):
            t = torch.full((n,), cur)
            a, s = self.coef(t)
            v = self.net(x, t)
            x0, eps = (a * x - s * v).clamp(-1, 1), s * x + a * v
            if i + 1 == len(times):
                return x0
            prev = torch.full((n,), times[i + 1])
            a_prev, s_prev = self.coef(prev)
            x = a_prev * x0 + s_prev * eps


def describe(x):
    img = F.relu((x.view(-1, SIDE, SIDE) + 1) / 2 - 0.2)
    pos = torch.arange(SIDE).float()
    mass = img.sum((1, 2)).clamp(min=1e-3)
    cy, cx = (img.sum(2) @ pos) / mass, (img.sum(1) @ pos) / mass
    d2 = (pos[None, :, None] - cy[:, None, None]) ** 2 + (pos[None, None] - cx[:, None, None]) ** 2
    return torch.stack([mass, cy, cx, (img * d2).sum((1, 2)) / mass], 1)


def main():
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(1)
    train, held = blob_images(8000, gen), blob_images(1000, gen)
    model = Diffusion(Net())
    opt = torch.optim.Adam(model.net.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=1200)
    for step in range(1200):
        loss = model.loss(train[torch.randint(0, len(train), (128,))])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 300 == 0:
            print(f"step {step} v loss {loss.item():.4f}")
    model.net.eval()
    a, b = describe(model.ddim(1000)), describe(held)
    gap = ((a.sort(0).values - b.sort(0).values).abs().mean(0) / b.std(0)).mean()
    print(f"image statistics gap: {gap.item():.4f}")


if __name__ == "__main__":
    main()
