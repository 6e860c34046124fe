"""Rating prediction for a food delivery service: tabular features + target statistics -> MLP."""
import numpy as np
import torch
import torch.nn as nn

SEED = 17
PRIOR = 0.1


def simulate(rng, n_users=2800, n_dishes=2400, n=11000):
    taste = rng.normal(0, 1, (n_users, 4))
    style = rng.normal(0, 1, (n_dishes, 4))
    generosity = rng.normal(0, 0.6, n_users)
    quality = rng.normal(0, 0.6, n_dishes)
    u, d = rng.integers(0, n_users, n), rng.integers(0, n_dishes, n)
    delay = rng.gamma(2.0, 10.0, n)
    price = np.exp(rng.normal(2.5, 0.4, n_dishes))[d]
    noise_style = style + rng.normal(0, 0.3, style.shape)
    noise_taste = taste + rng.normal(0, 0.3, taste.shape)
    r = (3.4 + generosity[u] + quality[d] + 0.35 * (taste[u] * style[d]).sum(1)
         - 0.02 * (delay - 20) - 0.3 * (np.log(price) - 2.5) + rng.normal(0, 0.6, n))
    rating = np.clip(np.round(r * 2) / 2, 0.5, 5.0)
    return {"user": u, "dish": d, "delay": delay, "price": price, "rating": rating,
            "taste": noise_taste[u], "style": noise_style[d]}


def group_stats(keys, ratings, size):
    return np.bincount(keys, ratings, size), np.bincount(keys, minlength=size)


def encode(keys, ratings, sums, counts, mean, own):
    s, c = sums[keys], counts[keys]
    if own:
        s, c = s - ratings, c - 1
    return (s + PRIOR * mean) / (c + PRIOR), np.log1p(c)


def design(data, idx, stats, mean, own):
    cols = []
    for key in ("user", "dish"):
        sums, counts = stats[key]
        enc, cnt = encode(data[key][idx], data["rating"][idx], sums, counts, mean, own)
        cols += [enc - mean, cnt]
    cols += [data["delay"][idx] / 10, np.log(data["price"][idx])]
    cols += list((data["taste"][idx] * data["style"][idx]).T)
    return np.stack(cols, 1).astype(np.float32)


def batches(n, size, gen):
    perm = torch.randperm(n, generator=gen)
    for i in range(0, n, size):
        yield perm[i:i + size]


def main():
    rng = np.random.default_rng(SEED)
    torch.manual_seed(SEED)
    data = simulate(rng)
    perm = rng.permutation(len(data["rating"]))
    tr, va, te = perm[:8000], perm[8000:9500], perm[9500:]

    mean = data["rating"][tr].mean()
    stats = {k: group_stats(data[k][tr], data["rating"][tr], data[k].max() + 1) for k in ("user", "dish")}
    x_tr = design(data, tr, stats, mean, own=False)
    x_va = design(data, va, stats, mean, own=False)
    x_te = design(data, te, stats, mean, own=False)
    mu, sd = x_tr.mean(0), x_tr.std(0) + 1e-6
    x_tr, x_va, x_te = (torch.from_numpy((x - mu) / sd) for x in (x_tr, x_va, x_te))
    y_tr, y_va, y_te = (torch.tensor(data["rating"][i] - mean, dtype=torch.float32) for i in (tr, va, te))

    net = nn.Sequential(nn.Linear(x_tr.shape[1], 64), nn.ReLU(), nn.Dropout(0.1),
                        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)
    gen = torch.Generator().manual_seed(SEED)
    best, keep = 1e9, None
    for epoch in range(30):
        net.train()
        tot = 0.0
        for b in batches(len(x_tr), 64, gen):
            loss = ((net(x_tr[b]).squeeze(1) - y_tr[b]) ** 2).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            tot += loss.item() * len(b)
        net.eval()
        with torch.no_grad():
            rmse = ((net(x_va).squeeze(1) - y_va) ** 2).mean().sqrt().item()
        if rmse < best:
            best, keep = rmse, {k: v.clone() for k, v in net.state_dict().items()}
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:2d}: train rmse {(tot / len(x_tr)) ** 0.5:.4f}  val rmse {rmse:.4f}")
    net.load_state_dict(keep)
    net.eval()
    with torch.no_grad():
        rmse = ((net(x_te).squeeze(1) - y_te) ** 2).mean().sqrt().item()
    print(f"test rmse {rmse:.4f}   global mean {y_te.square().mean().sqrt():.4f}")


if __name__ == "__main__":
    main()
