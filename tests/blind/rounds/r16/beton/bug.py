"""Druckfestigkeit von Beton aus der Rezeptur schaetzen."""
import numpy as np
import torch
from torch import nn

SAAT = 7
EPOCHEN = 20
STAPEL = 50


def erzeuge_rezepturen(n, rng):
    zement = rng.uniform(150, 500, n)
    wasser = rng.uniform(130, 230, n)
    schlacke = rng.uniform(0, 200, n)
    flugasche = rng.uniform(0, 150, n)
    fliessmittel = rng.uniform(0, 20, n)
    alter = rng.choice([3, 7, 14, 28, 56, 90], n)
    bindemittel = zement + 0.6 * schlacke + 0.3 * flugasche
    festigkeit = 22 * (bindemittel / wasser) ** 0.9 * np.log1p(alter) / 3.3
    festigkeit += 0.4 * fliessmittel + rng.normal(0, 1.5, n)
    merkmale = np.stack([zement, wasser, schlacke, flugasche, fliessmittel, np.log1p(alter)], 1)
    return merkmale.astype(np.float32), festigkeit.astype(np.float32)


class Festigkeitsnetz(nn.Module):
    def __init__(self, eingang):
        super().__init__()
        self.netz = nn.Sequential(
            nn.Linear(eingang, 48), nn.SiLU(),
            nn.Linear(48, 48), nn.SiLU(),
            nn.Linear(48, 1),
        )

    def forward(self, x):
        return self.netz(x)


def quadratischer_fehler(schaetzung, soll):
    return ((schaetzung - soll) ** 2).mean()


def main():
    torch.manual_seed(SAAT)
    rng = np.random.default_rng(SAAT)
    x, y = erzeuge_rezepturen(1600, rng)
    xt, yt = erzeuge_rezepturen(400, rng)
    mittel, streu = x.mean(0), x.std(0)
    x, xt = (x - mittel) / streu, (xt - mittel) / streu
    ym, ys = y.mean(), y.std()
    x, xt = torch.from_numpy(x), torch.from_numpy(xt)
    y = torch.from_numpy((y - ym) / ys)

    modell = Festigkeitsnetz(x.shape[1])
    opt = torch.optim.Adam(modell.parameters(), lr=2e-3)
    for epoche in range(EPOCHEN):
        summe = 0.0
        for idx in torch.randperm(len(x)).split(STAPEL):
            opt.zero_grad()
            verlust = quadratischer_fehler(modell(x[idx]), y[idx])
            verlust.backward()
            opt.step()
            summe += verlust.item() * len(idx)
        if epoche % 5 == 4:
            print(f"Epoche {epoche + 1:3d}  Verlust {summe / len(x):.4f}")

    with torch.no_grad():
        schaetz = modell(xt).numpy().ravel() * ys + ym
    r2 = 1 - ((schaetz - yt) ** 2).sum() / ((yt - yt.mean()) ** 2).sum()
    print(f"Test R2 {r2:.3f}   RMSE {np.sqrt(((schaetz - yt) ** 2).mean()):.2f} MPa")


if __name__ == "__main__":
    main()
