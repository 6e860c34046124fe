"""Write the turning tests: accelerometer records, measured roughness and the band feature cache."""
import csv
import os

import numpy as np

RATE = 10000


def campaign(seed, n):
    rng = np.random.default_rng(seed)
    waves = np.zeros((n, 2048), dtype=np.float16)
    roughness = np.zeros(n)
    t = np.arange(2048) / RATE
    for i in range(n):
        speed = rng.uniform(20, 45)
        wear = rng.beta(2, 3)
        chatter = max(0.0, rng.normal(0.25, 0.45))
        tooth = rng.uniform(1500, 1900)
        x = 0.6 * np.sin(2 * np.pi * speed * t + rng.uniform(0, 6.28))
        x += 0.9 * chatter * np.sin(2 * np.pi * tooth * t + 2.5 * np.sin(2 * np.pi * speed * t))
        noise = np.convolve(rng.normal(0, 1, 2048 + 7), np.array([1, -1, 1, -1, 1, -1, 1, -1]) / 5, mode="valid")
        x += (0.1 + 0.7 * wear) * noise + rng.normal(0, 0.08, 2048)
        waves[i] = x
        roughness[i] = 0.8 + 2.2 * wear ** 1.5 + 1.6 * chatter + rng.normal(0, 0.08)
    return waves, roughness


def band_features(waves, frame=256, hop=128, bands=32):
    x = waves.astype(np.float32)
    starts = range(0, x.shape[1] - frame + 1, hop)
    window = np.hanning(frame).astype(np.float32)
    out = []
    for s in starts:
        power = np.abs(np.fft.rfft(x[:, s:s + frame] * window, axis=1)) ** 2
        out.append(power[:, 1:].reshape(len(x), bands, -1).mean(2))
    return np.log(np.stack(out, 2) + 1e-3).astype(np.float32)


def main():
    n = 900
    pilot, _ = campaign(2023, n)
    waves, roughness = campaign(2024, n)
    ids = np.array([f"cut_{i:04d}" for i in range(n)])
    is_val = np.random.default_rng(6).random(n) < 0.25
    for side in ("bug", "ok"):
        os.makedirs(os.path.join(side, "cache"), exist_ok=True)
        np.savez_compressed(os.path.join(side, "accelerometer.npz"), cut_id=ids, wave=waves)
        with open(os.path.join(side, "roughness.csv"), "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["cut_id", "ra_um", "part"])
            for i in range(n):
                w.writerow([ids[i], f"{roughness[i]:.3f}", "val" if is_val[i] else "train"])
        cached = {"ok": waves, "bug": pilot}[side]
        np.savez(os.path.join(side, "cache", "bands_f256_h128.npz"), cut_id=ids, bands=band_features(cached))


if __name__ == "__main__":
    main()
