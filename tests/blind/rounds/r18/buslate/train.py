import csv, json, math, os, sys
import torch
import torch.nn as nn

root = sys.argv[1]
cfg = json.load(open(os.path.join(root, "config.json")))
torch.manual_seed(cfg["seed"])
LINES = ["12", "18", "61", "M4", "N2", "X30"]


def load(name):
    X, Y = [], []
    for r in csv.DictReader(open(os.path.join(root, name))):
        h = 2 * math.pi * int(r["hour"]) / 24
        X.append([float(r["line"] == l) for l in LINES]
                 + [math.sin(h), math.cos(h), math.sin(2 * h), math.cos(2 * h), float(int(r["weekday"]) >= 5), int(r["hour"]) / 24,
                    int(r["stop_seq"]) / 30, float(r["rain_mm"]) / 5, float(r["prev_trip_delay_s"]) / 100, float(r["load_factor"])])
        Y.append(float(r["delay_s"]))
    return torch.tensor(X), torch.tensor(Y)


x, y = load("stops_train.csv")
xt, yt = load("stops_test.csv")
mu, sd = y.mean(), y.std()

width = cfg["model"]["hidden"]
layers = [nn.Linear(x.shape[1], width), nn.GELU()]
for _ in range(cfg["model"]["layers"] - 1):
    layers += [nn.Linear(width, width), nn.GELU()]
net = nn.Sequential(*layers, nn.Linear(width, 1))

o = cfg["optim"]
opt = torch.optim.AdamW(net.parameters(), lr=o["lr"], weight_decay=o["weight_decay"])
total = cfg["epochs"] * math.ceil(len(x) / o["batch_size"])


def factor(step):
    if step < o["warmup_steps"]:
        return (step + 1) / o["warmup_steps"]
    done = (step - o["warmup_steps"]) / max(1, total - o["warmup_steps"])
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


sched = torch.optim.lr_scheduler.LambdaLR(opt, factor)
for epoch in range(cfg["epochs"]):
    running = 0.0
    for idx in torch.randperm(len(x)).split(o["batch_size"]):
        loss = nn.functional.smooth_l1_loss(net(x[idx]).squeeze(1), (y[idx] - mu) / sd)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        running += loss.item() * len(idx)
    if epoch % 3 == 1:
        print(f"epoch {epoch} loss {running / len(x):.4f}")
with torch.no_grad():
    mae = (net(xt).squeeze(1) * sd + mu - yt).abs().mean().item()
print(f"test MAE {mae:.1f} s  (median guess {(y.median() - yt).abs().mean().item():.1f} s)")
