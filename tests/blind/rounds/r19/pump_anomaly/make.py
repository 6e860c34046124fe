import os

import numpy as np

COLS = "rpm,flow,pressure_in,pressure_out,power,bearing_temp,vibration,valve,label"


def pump(n, seed, faulty=0.0):
    rng = np.random.default_rng(seed)
    load = rng.beta(3, 2, n)
    amb = rng.normal(20, 4, n)
    valve = rng.uniform(.3, 1, n)
    fault = (rng.random(n) < faulty).astype(int)
    kind = rng.integers(0, 3, n)
    rpm = 900 + 2100 * load + rng.normal(0, 15, n)
    flow = .03 * rpm * valve + rng.normal(0, .8, n)
    pin = 2.0 + .2 * np.sin(amb) + rng.normal(0, .03, n)
    pout = pin + 6e-7 * rpm**2 * (1.6 - valve) * 1.5 + rng.normal(0, .08, n)
    power = .012 * flow * (pout - pin) + .001 * rpm + rng.normal(0, .05, n)
    temp = amb + 25 * load + rng.normal(0, .8, n)
    vib = .5 + 1.2 * load**2 + rng.normal(0, .06, n)
    s = np.sign(rng.normal(size=n))
    pout = pout + fault * (kind == 0) * s * rng.uniform(.8, 1.8, n)
    flow = flow + fault * (kind == 1) * s * rng.uniform(7, 15, n)
    power = power + fault * (kind == 2) * s * rng.uniform(.6, 1.2, n)
    return np.column_stack([rpm, flow, pin, pout, power, temp, vib, valve, fault])


train, test = pump(6000, 1), pump(3000, 2, .1)
for side in ("bug", "ok"):
    os.makedirs(side, exist_ok=True)
    tr, te = train.copy(), test.copy()
    if side == "bug":
        rng = np.random.default_rng(4)
        for c in (1, 3, 4):
            tr[rng.random(len(tr)) < .01, c] = 65535
    for name, a in (("train", tr), ("test", te)):
        np.savetxt(f"{side}/{name}.csv", a, delimiter=",", header=COLS, comments="", fmt=["%.1f"] + ["%.3f"] * 7 + ["%d"])
