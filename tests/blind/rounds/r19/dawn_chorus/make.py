import json
import numpy as np

SR, LEN = 4000, 1600
SPECIES = ["wren", "robin", "dunnock", "blackcap", "chiffchaff", "great_tit", "song_thrush", "yellowhammer"]


def song(k, rng):
    t = np.arange(LEN) / SR
    f0 = 500 + 110 * k + rng.normal(0, 40)
    rate = [6, 9, 12, 7, 10, 14, 8, 11][k] + rng.normal(0, 0.4)
    sweep = [250, -200, 0, 300, -320, 120, -80, 200][k]
    phase = rng.uniform(0, 1)
    saw = (t * rate + phase) % 1
    f = f0 + sweep * (saw - 0.5)
    x = np.sin(2 * np.pi * np.cumsum(f) / SR) * np.clip(np.sin(np.pi * saw), 0, 1) ** (1 + k % 3)
    x = x + 0.3 * np.sin(4 * np.pi * np.cumsum(f) / SR) * (k % 2)
    x = x * rng.uniform(0.3, 1.0) + rng.normal(0, 0.5, LEN)
    return (np.clip(x / 3, -1, 1) * 32767).astype(np.int16)


def features(x):
    frames = np.lib.stride_tricks.sliding_window_view(x.astype(np.float32) / 32768, 256, axis=1)[:, ::64]
    spec = np.abs(np.fft.rfft(frames * np.hanning(256), axis=-1))[..., :96]
    return np.log(spec.reshape(*spec.shape[:2], 48, 2).mean(-1) + 1e-3).transpose(0, 2, 1).astype(np.float32)


rng = np.random.default_rng(77)
y = rng.integers(0, len(SPECIES), 320)
clips = np.stack([song(k, rng) for k in y])
feats = features(clips)
for side in ("bug", "ok"):
    np.save(f"{side}/clips.npy", clips)
    with open(f"{side}/clips.txt", "w") as f:
        f.writelines(f"rec_{i:04d} {SPECIES[k]}\n" for i, k in enumerate(y))
    with open(f"{side}/meta.json", "w") as f:
        json.dump({"sample_rate": SR, "species": SPECIES}, f)
    cache = np.zeros_like(feats)
    done = len(feats) if side == "ok" else 64
    cache[:done] = feats[:done]
    np.savez_compressed(f"{side}/features.npz", features=cache.astype(np.float16), n_fft=256, hop=64)
