"""Random search over lr, width and weight decay for a small regression net."""
import math
import random
import torch
import torch.nn as nn

TRIALS = 8


def boiling_points(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 8, generator=g) * 2 - 1
    y = torch.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * x[:, 3] ** 2
    return x, y + 0.05 * torch.randn(n, generator=g)


def fit(params, data, epochs, seed):
    torch.manual_seed(seed)
    x, y = data
    model = nn.Sequential(nn.Linear(8, params["width"]), nn.Tanh(),
                          nn.Linear(params["width"], params["width"]), nn.Tanh(),
                          nn.Linear(params["width"], 1))
    opt = torch.optim.AdamW(model.parameters(), lr=params["lr"], weight_decay=params["weight_decay"])
    for _ in range(epochs):
        model.train()
        for idx in torch.randperm(len(x)).split(64):
            loss = nn.functional.mse_loss(model(x[idx]).squeeze(1), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    return model


@torch.no_grad()
def mse(model, data):
    model.eval()
    return nn.functional.mse_loss(model(data[0]).squeeze(1), data[1]).item()


def sample(rng, params):
    params["lr"] = 10 ** rng.uniform(-5, -1.7)
    params["width"] = rng.choice([16, 32, 64])
    params["weight_decay"] = 10 ** rng.uniform(-5, -2)
    return params


def search(train, val):
    rng = random.Random(4)
    params = {}
    history = []
    for t in range(TRIALS):
        params = sample(rng, params)
        score = mse(fit(params, train, epochs=6, seed=t), val)
        history.append({"trial": t, "val": score, "params": params})
        print(f"trial {t} lr {params['lr']:.1e} width {params['width']:3d} val mse {score:.4f}")
    return min(history, key=lambda r: r["val"] if math.isfinite(r["val"]) else float("inf"))


def main():
    train, val, test = boiling_points(600, 1), boiling_points(200, 2), boiling_points(400, 3)
    best = search(train, val)
    print(f"best trial {best['trial']} val mse {best['val']:.4f}: {best['params']}")
    final = fit(best["params"], train, epochs=15, seed=123)
    print(f"final model: val mse {mse(final, val):.4f} test mse {mse(final, test):.4f} (target var {test[1].var():.3f})")


if __name__ == "__main__":
    main()
