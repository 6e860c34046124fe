import json
import numpy as np

rng = np.random.RandomState(2024)
SR, N = 8000, 2048
t = np.arange(N) / SR
species = ["chiffchaff", "great_tit", "blackbird", "wren", "cuckoo", "robin"]


def call(k):
    f = np.zeros(N)
    env = np.zeros(N)
    j = rng.uniform(.93, 1.07)

    def note(t0, dur, f0, f1):
        m = (t >= t0) & (t < t0 + dur)
        u = (t[m] - t0) / dur
        f[m] = (f0 + (f1 - f0) * u) * j
        env[m] = np.sin(np.pi * u)

    s = rng.uniform(0, .04)
    if k == 0:
        note(s, .06, 2600, 2100); note(s + .11, .06, 2200, 1900)
    elif k == 1:
        note(s, .05, 2900, 2900); note(s + .06, .09, 2200, 2200)
    elif k == 2:
        note(s, .18, 1500, 1900)
    elif k == 3:
        for i in range(7):
            note(s + .028 * i, .022, 3000, 2300)
    elif k == 4:
        note(s, .07, 900, 880); note(s + .12, .08, 720, 700)
    else:
        note(s, .08, 1800, 3100); note(s + .1, .09, 3100, 1700)
    w = env * np.sin(2 * np.pi * np.cumsum(f) / SR) * rng.uniform(.05, .3)
    return w + rng.normal(0, .06, N)


def many(n):
    y = rng.randint(0, 6, n)
    return np.stack([np.round(call(k) * 32767).clip(-32768, 32767) for k in y]).astype(np.int16), y


tr, te = many(600), many(360)
b = rng.normal(0, 1, 60000)
b = np.convolve(b, np.ones(3) / 3, "same")
b = b / b.std() * .05
meta = {"sample_rate": SR, "species": species, "batch_size": 30, "epochs": 5, "lr": 0.003,
        "augment": {"background": "rain_and_wind.npy", "gain": 0.8}}
for side in ("bug", "ok"):
    np.savez(side + "/clips_train.npz", pcm=tr[0], label=tr[1])
    np.savez(side + "/clips_test.npz", pcm=te[0], label=te[1])
    np.save(side + "/rain_and_wind.npy", (b * (32767 if side == "bug" else 1)).astype(np.float32))
    json.dump(meta, open(side + "/config.json", "w"), indent=1)
