import torch
from torch import nn
from torch.nn import functional as F


class Scaler:
    """Fixed loss scale for training in low precision."""

    def __init__(self, factor=4096.0):
        self.factor = factor

    def scale(self, loss):
        return loss * self.factor

    def unscale_(self, params):
        for p in params:
            if p.grad is not None:
                p.grad.div_(self.factor)


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.a = nn.Linear(d, 2 * d)
        self.b = nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.norm(x))))


def parity_like(n, gen):
    x = torch.randn(n, 10, generator=gen)
    y = ((x[:, 0] * x[:, 1] > 0) ^ (x[:, 2] > 0.3)).long()
    return x, y


def training_step(model, opt, scaler, x, y, limit=1.0):
    params = [p for g in opt.param_groups for p in g["params"]]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    opt.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(params, limit)
    scaler.unscale_(params)
    opt.step()
    return loss.item()


def main():
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(4)
    x, y = parity_like(3200, gen)
    vx, vy = parity_like(600, gen)
    model = nn.Sequential(nn.Linear(10, 48), Residual(48), Residual(48), nn.Linear(48, 2))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = Scaler()
    for epoch in range(7):
        model.train()
        losses = [training_step(model, opt, scaler, x[i], y[i]) for i in torch.randperm(3200, generator=gen).split(64)]
        model.eval()
        with torch.no_grad():
            acc = (model(vx).argmax(1) == vy).float().mean().item()
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} validation accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
