import csv
import json
import os

import numpy as np

N_REC, N_SAMP = 20, 36000


def bump(t, c, w, a):
    return a * np.exp(-0.5 * ((t - c) / w) ** 2)


def record(seed):
    rng = np.random.default_rng(seed)
    t = np.arange(N_SAMP)
    sig = 0.15 * np.sin(2 * np.pi * t / 1500 + rng.uniform(0, 6)) + rng.normal(size=N_SAMP) * 0.14
    amp, tw = rng.uniform(0.8, 1.3), rng.uniform(0.2, 0.4)
    pos, beats = 120, []
    while pos < N_SAMP - 150:
        sym = rng.choice(list("NSVF"), p=[0.6, 0.14, 0.18, 0.08])
        k = np.arange(pos - 60, pos + 90)
        j = rng.normal() * 2.5
        if sym in "NS":
            early = 8 if sym == "S" else 0
            b = bump(k, pos - 22 + early, 4, 0.18 if sym == "N" else -0.12) + bump(k, pos - 4, 1.6, -0.15) \
                + bump(k, pos, 2.2, amp) + bump(k, pos + 5, 2, -0.2) + bump(k, pos + 34 + j, 8, tw)
        elif sym == "V":
            b = bump(k, pos, rng.uniform(4.5, 9), amp * 1.1) + bump(k, pos + 15, 7, -0.35) + bump(k, pos + 40 + j, 9, -tw)
        else:
            b = bump(k, pos - 22, 4, 0.1) + bump(k, pos, rng.uniform(2.8, 5.2), amp * 1.05) + bump(k, pos + 9, 4, -0.25) \
                + bump(k, pos + 37 + j, 9, tw * 0.2)
        sig[pos - 60:pos + 90] += b
        beats.append((pos, str(sym)))
        pos += int(rng.normal(135, 8))
    return sig, beats


def main():
    sigs, anns = zip(*[record(100 + i) for i in range(N_REC)])
    data = (np.stack(sigs) * 200).round().astype(np.int16)
    meta = {"n_records": N_REC, "n_samples": N_SAMP, "gain": 200, "fs": 180, "records": [
        {"name": f"r{200 + i}", "row": i, "split": "valid" if i >= 15 else "train"} for i in range(N_REC)]}
    for side in ("bug", "ok"):
        os.makedirs(f"{side}/ann", exist_ok=True)
        data.tofile(f"{side}/signals.dat")
        json.dump(meta, open(f"{side}/records.json", "w"), indent=1)
        for i, beats in enumerate(anns):
            samples, symbols = [b[0] for b in beats], [b[1] for b in beats]
            if side == "bug" and i < 15 and i % 5 != 0:
                # symbols one row late: the first row was meant for the rhythm marker
                symbols = ["N"] + symbols[:-1]
            with open(f"{side}/ann/r{200 + i}.csv", "w", newline="") as f:
                w = csv.writer(f)
                w.writerow(["sample", "symbol"])
                w.writerows(zip(samples, symbols))


if __name__ == "__main__":
    main()
