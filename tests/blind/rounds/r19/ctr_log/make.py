import csv
import os

import numpy as np

COLS = ["hour", "site", "device", "ad_id", "position", "user_ctr_30d", "ad_ctr_7d", "dwell_prev", "session_clicks", "bid", "click"]


def build(n, seed, post_event):
    rng = np.random.default_rng(seed)
    tab = np.random.default_rng(99)
    site_eff, dev_eff, ad_eff = tab.normal(0, .5, 20), tab.normal(0, .5, 4), tab.normal(0, .7, 50)
    cross = tab.normal(0, .6, (20, 50))
    hour = rng.integers(0, 24, n)
    site = rng.integers(0, 20, n)
    device = rng.integers(0, 4, n)
    ad = rng.integers(0, 50, n)
    pos = rng.integers(1, 7, n)
    u = rng.normal(0, 1, n)
    prev = rng.poisson(np.exp(0.2 + 0.5 * u))
    z = -1.2 + site_eff[site] + dev_eff[device] + ad_eff[ad] + cross[site, ad] - .3 * (pos - 3) + .8 * u + .3 * np.sin(hour / 24 * 6.28)
    click = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    user_ctr = 1 / (1 + np.exp(-(u - 1.2 + rng.normal(0, .5, n))))
    ad_ctr = 1 / (1 + np.exp(-(ad_eff[ad] - 1.2 + rng.normal(0, .2, n))))
    dwell = rng.exponential(20, n) * np.exp(.2 * u)
    if post_event:
        sess = click * (1 + rng.poisson(.4, n)) + (1 - click) * (rng.random(n) < .03)
    else:
        sess = prev
    bid = rng.gamma(3, .2, n)
    return zip(hour, site, device, ad, pos, user_ctr.round(4), ad_ctr.round(4), dwell.round(1), sess.astype(int), bid.round(2), click)


def write(path, rows):
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(COLS)
        w.writerows(rows)


for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    write(f"{side}/train.csv", build(14000, 1, side == "bug"))
    write(f"{side}/valid.csv", build(4000, 2, False))
