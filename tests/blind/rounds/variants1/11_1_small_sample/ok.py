import torch
from torch import nn
from torch.nn.functional import mse_loss


def sample(n, gen, noise):
    x = torch.randn(n, 8, generator=gen)
    clean = torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    return x, clean + noise * torch.randn(n, generator=gen)


class EarlyStopping:
    """Keeps the weights of the epoch with the lowest validation error."""

    def __init__(self, model):
        self.model = model
        self.best = float("inf")
        self.kept = {}
        self.epoch = None

    def update(self, epoch, value):
        if value < self.best:
            self.best, self.epoch = value, epoch
            self.kept = {k: v.detach().clone() for k, v in self.model.named_parameters()}

    @torch.no_grad()
    def restore(self):
        for k, p in self.model.named_parameters():
            p.copy_(self.kept[k])


def error(model, x, y):
    model.eval()
    with torch.no_grad():
        return mse_loss(model(x).squeeze(-1), y).item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(7)
    x, y = sample(1000, gen, 0.6)
    vx, vy = sample(400, gen, 0.6)
    tx, ty = sample(2000, gen, 0.0)
    model = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    keeper = EarlyStopping(model)
    for epoch in range(22):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x), generator=gen).split(60):
            loss = mse_loss(model(x[idx]).squeeze(-1), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        held = error(model, vx, vy)
        keeper.update(epoch, held)
        if epoch % 5 == 4:
            print(f"epoch {epoch} train {total / len(x):.4f} valid {held:.4f}")
    keeper.restore()
    print(f"kept epoch {keeper.epoch}: valid then {keeper.best:.4f}, valid now {error(model, vx, vy):.4f}, "
          f"test {error(model, tx, ty):.4f}, variance {ty.var():.3f}")


if __name__ == "__main__":
    main()
