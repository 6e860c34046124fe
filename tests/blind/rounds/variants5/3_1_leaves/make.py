from pathlib import Path
import sys, importlib.util, numpy as np, torch
here = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("t", here / "train.py"); m = importlib.util.module_from_spec(spec); spec.loader.exec_module(m)
rng = np.random.default_rng(30)
K, S = 6, 20
yy, xx = np.mgrid[0:S, 0:S] / S - .5
def leaf(c):
    th = rng.uniform(0, np.pi); cx, cy = rng.normal(0, .05, 2)
    u = (xx - cx) * np.cos(th) + (yy - cy) * np.sin(th); v = -(xx - cx) * np.sin(th) + (yy - cy) * np.cos(th)
    r = np.hypot(u, v); a = np.arctan2(v, u)
    rad = .3 * [1, 1, 1, 1, .8, .8][c] * (1 + [0, .35, .35, 0, .25, 0][c] * np.cos([0, 3, 5, 0, 8, 0][c] * a))
    e = [1, 1, 1, 2.6, 1, 1.6][c]
    inside = np.hypot(u, v * e) < rad
    vein = .25 * np.sin([40, 15, 25, 30, 60, 10][c] * u)
    return inside * (.6 + vein) * rng.uniform(.7, 1.1) + .08 * rng.normal(size=(S, S))
def part(n):
    y = rng.integers(0, K, n); x = np.stack([leaf(c) for c in y])
    return (x.clip(0, 1) * 255).astype("u1"), y
parts = {"train": part(1800), "valid": part(400), "test": part(400)}
def backbone(seed):
    torch.manual_seed(seed); b = m.Backbone(24); head = torch.nn.Linear(48, K)
    px, py = part(900); px = torch.tensor(px).float()[:, None] / 255; py = torch.tensor(py)
    opt = torch.optim.Adam([*b.parameters(), *head.parameters()], 3e-3)
    for e in range(6):
        for r in torch.randperm(900).split(50):
            l = torch.nn.functional.cross_entropy(head(b(px[r])), py[r]); opt.zero_grad(); l.backward(); opt.step()
    return b.eval()
torch.set_num_threads(1)
old, new = backbone(1), backbone(2)
for side in ("bug", "ok"):
    d = here / side; (d / "cache").mkdir(parents=True, exist_ok=True)
    torch.save(new.state_dict(), d / "backbone.pt")
    for p, (x, y) in parts.items():
        np.savez_compressed(d / f"{p}.npz", images=x, species=y)
        net = old if side == "bug" and p != "test" else new
        with torch.no_grad():
            torch.save({"features": net(torch.tensor(x).float()[:, None] / 255)}, d / "cache" / f"{p}.pt")
    (d / "probe.yaml").write_text("seed: 3\nwidth: 24\nclasses: 6\nlr: 0.003\nbatch_size: 64\nepochs: 25\n")
