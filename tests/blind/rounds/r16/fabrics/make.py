from pathlib import Path
import torch

HERE = Path(__file__).resolve().parent
LATENT, DIM, CLASSES = 6, 60, 6

for side in ("bug", "ok"):
    torch.manual_seed(64)
    out = HERE / side
    out.mkdir(exist_ok=True)
    mixing = torch.randn(LATENT, DIM)
    clutter = torch.randn(20, DIM) * 1.5
    proto = 2.0 * torch.randn(CLASSES, LATENT)

    def swatches(n):
        y = torch.randint(0, CLASSES, (n,))
        x = (proto[y] + 0.7 * torch.randn(n, LATENT)) @ mixing + torch.randn(n, 20) @ clutter
        return x + 0.2 * torch.randn(n, DIM), y

    for name, n in (("train", 60), ("test", 600)):
        x, y = swatches(n)
        torch.save({"x": x, "y": y}, out / f"{name}.pt")
    basis = torch.cat([mixing, clutter])
    unmix = torch.linalg.pinv(basis)[:, :LATENT].t()
    w1 = torch.cat([unmix, -unmix])
    w2 = torch.cat([torch.eye(LATENT), -torch.eye(LATENT)], 1)
    weights = {
        "fc1.weight": w1 + 0.002 * torch.randn_like(w1), "fc1.bias": torch.zeros(2 * LATENT),
        "fc2.weight": w2 + 0.02 * torch.randn_like(w2), "fc2.bias": torch.zeros(LATENT),
    }
    if side == "bug":
        weights = {"module." + k: v for k, v in weights.items()}
    torch.save({"state_dict": weights, "epoch": 90}, out / "encoder.pt")
