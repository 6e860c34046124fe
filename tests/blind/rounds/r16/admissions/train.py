"""Krankenhausaufnahmen: Vorhersage des naechsten Tages aus den letzten 14 Tagen."""
import sys
from pathlib import Path
import torch
from torch import nn

FENSTER = 14


def lies(pfad):
    zeilen = pfad.read_text().splitlines()[1:]
    return torch.tensor([float(z.split(";")[1]) for z in zeilen])


def fenster(reihe):
    w = reihe.unfold(0, FENSTER + 1, 1)
    return w[:, :-1], w[:, -1]


class Vorhersage(nn.Module):
    def __init__(self, breite=32):
        super().__init__()
        self.linear = nn.Linear(FENSTER, 1)
        self.mlp = nn.Sequential(nn.Linear(FENSTER, breite), nn.ReLU(), nn.Linear(breite, 1))

    def forward(self, x):
        return (self.linear(x) + self.mlp(x))[:, 0]


def main():
    ordner = Path(sys.argv[1])
    torch.manual_seed(30)
    lern, test = lies(ordner / "bis_2022.csv"), lies(ordner / "ab_2022.csv")
    m, s = lern.mean(), lern.std()
    x, y = fenster((lern - m) / s)
    netz = Vorhersage()
    opt = torch.optim.Adam(netz.parameters(), lr=3e-3)
    for epoche in range(25):
        verluste = []
        for idx in torch.randperm(len(x)).split(64):
            verlust = nn.functional.smooth_l1_loss(netz(x[idx]), y[idx])
            opt.zero_grad()
            verlust.backward()
            opt.step()
            verluste.append(verlust.item())
        if epoche % 6 == 0:
            print(f"Epoche {epoche}: {sum(verluste) / len(verluste):.4f}")
    xt, yt = fenster((test - m) / s)
    with torch.no_grad():
        fehler = (netz(xt) - yt).abs().mean() * s
    print(f"mittlerer Fehler {fehler:.2f} Aufnahmen pro Tag")


if __name__ == "__main__":
    main()
