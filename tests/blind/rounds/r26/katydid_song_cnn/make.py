import csv
import json
import os

import numpy as np

RATE = 4000
SECONDS = 14
SPECIES = {  # carrier in Hz after the heterodyne, chirps per second, sweep in Hz
    "amblycorypha": (620, 9.0, 0), "scudderia": (900, 5.0, 260), "pterophylla": (620, 5.0, 0),
    "neoconocephalus": (1350, 40.0, 0), "microcentrum": (900, 9.0, -260),
}


def song(rng, name, n):
    carrier, rate, sweep = SPECIES[name]
    t = np.arange(n) / RATE
    carrier = carrier * rng.uniform(0.95, 1.05)
    rate = rate * rng.uniform(0.9, 1.1)
    envelope = (np.sin(2 * np.pi * (rate * t + rng.random())) > 0.1) * np.minimum(1, np.minimum(t, t[-1] - t) / 0.02)
    phase = 2 * np.pi * (carrier * t + 0.5 * sweep * t * t / t[-1])
    return envelope * np.sin(phase)


def spectrogram(clip):
    frames = np.lib.stride_tricks.sliding_window_view(clip, 128)[::64] * np.hanning(128)
    return np.log1p(np.abs(np.fft.rfft(frames, axis=1))[:, 4:52]).T


def main():
    rng = np.random.default_rng(64)
    n_clip = int(0.6 * RATE)
    audio, first, final = [], [], []
    for night in range(60):
        wave = 0.10 * rng.normal(size=SECONDS * RATE)
        drift = rng.uniform(0.2, 1.2)
        for k in range(12):
            start = 0.3 + k * 1.1 + rng.uniform(0, 0.35)
            name = list(SPECIES)[rng.integers(len(SPECIES))]
            s = int(start * RATE)
            wave[s:s + n_clip] += rng.uniform(0.12, 0.4) * song(rng, name, n_clip)
            clip = f"n{night:02d}_{k:02d}"
            final.append([clip, night, f"{start:.3f}", name])
            first.append([clip, night, f"{max(start - drift, 0.0):.3f}", name])
        audio.append(wave)
    audio = np.clip(np.array(audio) * 12000, -32767, 32767).astype(np.int16)
    for side in ("bug", "ok"):
        os.makedirs(side, exist_ok=True)
        np.save(f"{side}/nights.npy", audio)
        with open(f"{side}/clips.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["clip", "night", "start_s", "species"])
            w.writerows(final)
        table = first if side == "bug" else final
        specs = []
        for _, night, start, _ in table:
            s = int(round(float(start) * RATE))
            specs.append(spectrogram(audio[night, s:s + n_clip].astype(np.float32) / 12000))
        np.savez_compressed(f"{side}/spectrograms.npz", clip=np.array([r[0] for r in table]), spec=np.array(specs, np.float16))
        with open(f"{side}/config.json", "w") as f:
            json.dump({"rate": RATE, "clip_s": 0.6, "val_nights": 15, "lr": 0.004, "epochs": 6, "batch": 30, "seed": 2}, f)


if __name__ == "__main__":
    main()
