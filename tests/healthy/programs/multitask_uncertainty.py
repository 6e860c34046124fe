"""Three tasks on one trunk, weighed by learned uncertainties that live beside the model."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Synthetic(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 12, generator=g)
        self.depth = self.x[:, :4].sum(1, keepdim=True) + 0.1 * torch.randn(n, 1, generator=g)
        self.kind = (self.x[:, 4:7]).argmax(1)
        self.flag = (self.x[:, 8] + self.x[:, 9] > 0).float()

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, i):
        return {"x": self.x[i], "depth": self.depth[i], "kind": self.kind[i], "flag": self.flag[i]}


class MultiTaskNet(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(12, hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(hidden, hidden), nn.GELU()
        )
        self.heads = nn.ModuleDict(
            {"depth": nn.Linear(hidden, 1), "kind": nn.Linear(hidden, 3), "flag": nn.Linear(hidden, 1)}
        )

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


class UncertaintyWeights(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.log_var = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in names})

    def forward(self, losses):
        return sum(torch.exp(-self.log_var[k]) * v + self.log_var[k] for k, v in losses.items())


def compute_losses(out, batch):
    return {
        "depth": F.smooth_l1_loss(out["depth"], batch["depth"]),
        "kind": F.cross_entropy(out["kind"], batch["kind"]),
        "flag": F.binary_cross_entropy_with_logits(out["flag"].squeeze(-1), batch["flag"]),
    }


@torch.inference_mode()
def validate(model, loader):
    model.eval()
    sums, n = {"depth": 0.0, "kind": 0.0, "flag": 0.0}, 0
    for batch in loader:
        out = model(batch["x"])
        sums["depth"] += (out["depth"] - batch["depth"]).abs().sum().item()
        sums["kind"] += (out["kind"].argmax(-1) == batch["kind"]).sum().item()
        sums["flag"] += ((torch.sigmoid(out["flag"]).squeeze(-1) > 0.5).float() == batch["flag"]).sum().item()
        n += len(batch["x"])
    model.train()
    return {k: round(v / n, 3) for k, v in sums.items()}


def main():
    torch.manual_seed(4)
    train = DataLoader(Synthetic(480, 0), batch_size=32, shuffle=True)
    val = DataLoader(Synthetic(120, 1), batch_size=60)
    model = MultiTaskNet()
    weigh = UncertaintyWeights(["depth", "kind", "flag"])
    decay = [p for p in model.parameters() if p.ndim > 1]
    no_decay = [p for p in model.parameters() if p.ndim <= 1] + list(weigh.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": no_decay, "weight_decay": 0.0}], lr=3e-3
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, epochs=5, steps_per_epoch=len(train))
    for epoch in range(5):
        for batch in train:
            losses = compute_losses(model(batch["x"]), batch)
            total = weigh(losses)
            total.backward()
            torch.nn.utils.clip_grad_norm_(list(model.parameters()) + list(weigh.parameters()), max_norm=5.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        print(epoch, {k: round(v.item(), 3) for k, v in losses.items()}, validate(model, val))


if __name__ == "__main__":
    main()
