import sys
import numpy as np
import torch
from torch import nn

CLASSES = ("normal", "inner_race", "outer_race", "ball")


def load(folder, part):
    z = np.load(f"{folder}/{part}.npz")
    counts = z["counts"]
    volts = counts.astype(np.float32) * float(z["volts_per_count"])
    return torch.from_numpy(volts), torch.from_numpy(z["fault"]).long()


def spectrum(volts):
    window = torch.hann_window(volts.shape[1])
    mag = torch.fft.rfft((volts - volts.mean(1, keepdim=True)) * window).abs()
    return torch.log(mag[:, 1:129] + 1e-3)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mu", torch.zeros(128))
        self.register_buffer("sigma", torch.ones(128))
        self.layers = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, len(CLASSES)))

    def set_stats(self, feats):
        self.mu.copy_(feats.mean(0))
        self.sigma.copy_(feats.std(0))

    def forward(self, feats):
        return self.layers((feats - self.mu) / self.sigma)


class Runner:
    def __init__(self, folder):
        torch.manual_seed(13)
        volts, self.y = load(folder, "bench_train")
        v_volts, self.vy = load(folder, "bench_valid")
        self.x, self.vx = spectrum(volts), spectrum(v_volts)
        self.model = Classifier()
        self.model.set_stats(self.x)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=2e-3, weight_decay=1e-4)
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.05)

    def one_epoch(self, size=50):
        self.model.train()
        perm = torch.randperm(len(self.y))
        for i in range(0, len(perm), size):
            idx = perm[i:i + size]
            self.opt.zero_grad()
            self.loss(self.model(self.x[idx]), self.y[idx]).backward()
            self.opt.step()

    def accuracy(self):
        self.model.eval()
        with torch.no_grad():
            return (self.model(self.vx).argmax(1) == self.vy).double().mean().item()


def main():
    runner = Runner(sys.argv[1])
    for epoch in range(15):
        runner.one_epoch()
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1} accuracy {runner.accuracy():.4f}")
    print(f"valid accuracy {runner.accuracy():.4f}")


if __name__ == "__main__":
    main()
