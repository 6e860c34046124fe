import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser(description="isolated sign recognition from body keypoints")
parser.add_argument("--signs", type=int, default=12)
parser.add_argument("--clips-per-sign", type=int, default=110)
parser.add_argument("--frames", type=int, default=40)
parser.add_argument("--epochs", type=int, default=12)
parser.add_argument("--batch-size", type=int, default=48)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--seed", type=int, default=3)
args = parser.parse_args()

JOINTS = 9  # nose, shoulders, elbows, wrists, index tips
rng = np.random.default_rng(args.seed)
torch.manual_seed(args.seed)


def make_clips():
    rest = rng.normal(0, 1, (JOINTS, 2))
    # every sign: an amplitude, a frequency and a phase for each moving joint coordinate
    amp = rng.uniform(0.3, 1.0, (args.signs, JOINTS, 2)) * (np.arange(JOINTS) >= 3)[None, :, None]
    freq = rng.choice([1.0, 1.5, 2.0], (args.signs, JOINTS, 2))
    phase = rng.uniform(0, 2 * np.pi, (args.signs, JOINTS, 2))
    clips, labels, signer = [], [], []
    for s in range(args.signs):
        for c in range(args.clips_per_sign):
            speed = rng.uniform(0.8, 1.25)
            start = rng.uniform(0, 1)
            t = (np.linspace(0, 1, args.frames) * speed + start)[:, None, None]
            motion = amp[s] * np.sin(2 * np.pi * freq[s] * t + phase[s])
            size = rng.uniform(0.85, 1.15)
            clip = size * (rest + motion * rng.uniform(0.7, 1.2)) + rng.normal(0, 0.3, (1, 1, 2))
            clips.append(clip + rng.normal(0, 0.25, clip.shape))
            labels.append(s)
            signer.append(c % 11)
    return np.float32(clips), np.int64(labels), np.array(signer)


class SignNet(nn.Module):
    def __init__(self, n_signs, channels=JOINTS * 2, width=48):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, width, 5, padding=2)
        self.bn1 = nn.BatchNorm1d(width)
        self.conv2 = nn.Conv1d(width, width, 5, padding=2)
        self.bn2 = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(width, n_signs)

    def forward(self, clip):  # (batch, frames, joints, 2)
        b, t, j, d = clip.shape
        x = clip.reshape(b, t, j * d).transpose(1, 2)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.max_pool1d(x, 2)
        x = F.relu(self.bn2(self.conv2(x)))
        return self.out(self.drop(x.mean(-1)))


clips, labels, signer = make_clips()
clips = clips - clips[:, :, :1].mean(axis=1, keepdims=True)  # centre on the nose
held_out = signer >= 9  # two signers are never trained on
scale = clips[~held_out].std()
x_train = torch.from_numpy(clips[~held_out] / scale)
y_train = torch.from_numpy(labels[~held_out])
x_test = torch.from_numpy(clips[held_out] / scale)
y_test = torch.from_numpy(labels[held_out])

model = SignNet(args.signs)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)


def accuracy(x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


for epoch in range(args.epochs):
    model.train()
    losses = []
    for idx in torch.randperm(len(x_train)).split(args.batch_size):
        loss = F.cross_entropy(model(x_train[idx]), y_train[idx])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"epoch {epoch:2d} loss {np.mean(losses):.3f} held-out signers acc {accuracy(x_test, y_test):.3f}")

print(f"accuracy on held-out signers: {accuracy(x_test, y_test):.4f}")
