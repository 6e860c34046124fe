import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CFG = dict(epochs=10, batch_size=16, accumulate=2, max_lr=2e-3, weight_decay=1e-2, seed=5)


def reactions(n, seed, shift):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 20, generator=g)
    w = torch.randn(20, 6, generator=torch.Generator().manual_seed(77)) * 0.4
    hidden = torch.tanh(x @ w + shift)
    y = (hidden * torch.tensor([1.0, -1, 1, -1, 0.5, 0.5])).sum(1, keepdim=True)
    return x, y + 0.05 * torch.randn(n, 1, generator=g)


class YieldNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
        self.regressor = nn.Linear(64, 1)

    def forward(self, x):
        return self.regressor(self.encoder(x))


def pretrain(model):
    x, y = reactions(1500, 1, shift=0.0)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    model.train()
    for epoch in range(6):
        for idx in torch.randperm(len(x)).split(50):
            loss = F.mse_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    print(f"pretraining done, last batch mse {loss.item():.4f}")
    return {k: v.clone() for k, v in model.encoder.state_dict().items()}


@torch.no_grad()
def r2(model, x, y):
    model.eval()
    return 1 - (F.mse_loss(model(x), y) / y.var(unbiased=False)).item()


def finetune(encoder_state):
    model = YieldNet()
    model.encoder.load_state_dict(encoder_state)
    x, y = reactions(640, 2, shift=1.0)
    val = reactions(400, 3, shift=1.0)
    loader = DataLoader(TensorDataset(x, y), CFG["batch_size"], shuffle=True, drop_last=True)
    steps = CFG["epochs"] * (len(loader) // CFG["accumulate"])
    opt = torch.optim.AdamW(model.parameters(), lr=CFG["max_lr"], weight_decay=CFG["weight_decay"])
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, CFG["max_lr"], total_steps=steps, pct_start=0.3)
    for epoch in range(CFG["epochs"]):
        model.train()
        total = 0.0
        opt.zero_grad()
        for i, (xb, yb) in enumerate(loader):
            loss = F.mse_loss(model(xb), yb)
            (loss / CFG["accumulate"]).backward()
            if (i + 1) % CFG["accumulate"] == 0:
                opt.step()
                sched.step()
                opt.zero_grad()
            total += loss.item()
        print(f"epoch {epoch} lr {sched.get_last_lr()[0]:.2e} train mse {total / len(loader):.4f} val R2 {r2(model, *val):.3f}")


if __name__ == "__main__":
    torch.manual_seed(CFG["seed"])
    finetune(pretrain(YieldNet()))
