"""Strompreis je Stunde aus Last, Wind und Sonne. Januar bis Maerz lernen, April pruefen."""
import sys
from pathlib import Path
import numpy as np
import torch

MONATE = ("januar", "februar", "maerz")


def lese_monat(ordner, monat):
    zeilen = (Path(ordner) / f"{monat}.txt").read_text().splitlines()
    werte = np.array([[float(w) for w in z.split("\t")] for z in zeilen[1:]], dtype=np.float32)
    return torch.from_numpy(werte[:, :3]), torch.from_numpy(werte[:, 3:])


def lese_alle(ordner):
    teile = [lese_monat(ordner, m) for m in MONATE]
    return torch.cat([t[0] for t in teile]), torch.cat([t[1] for t in teile])


class PreisNetz(torch.nn.Module):
    def __init__(self, mitte, streuung):
        super().__init__()
        self.register_buffer("mitte", mitte)
        self.register_buffer("streuung", streuung)
        self.eins = torch.nn.Linear(3, 16)
        self.zwei = torch.nn.Linear(16, 1)

    def forward(self, x):
        z = (x - self.mitte) / self.streuung
        return 50.0 + 20.0 * self.zwei(torch.nn.functional.elu(self.eins(z)))


def trainiere(netz, x, y, runden=40, paket=60):
    opt = torch.optim.Adam(netz.parameters(), lr=1e-2)
    for runde in range(1, runden + 1):
        fehler = 0.0
        for idx in torch.randperm(len(x)).split(paket):
            verlust = torch.nn.functional.mse_loss(netz(x[idx]), y[idx])
            opt.zero_grad()
            verlust.backward()
            opt.step()
            fehler += verlust.item() * len(idx)
        if runde % 10 == 0:
            print(f"Runde {runde}: MSE {fehler / len(x):.2f}")
    return netz


if __name__ == "__main__":
    torch.manual_seed(2)
    ordner = sys.argv[1]
    x, y = lese_alle(ordner)
    netz = trainiere(PreisNetz(x.mean(0), x.std(0)), x, y)
    xa, ya = lese_monat(ordner, "april")
    with torch.no_grad():
        mae = (netz(xa) - ya).abs().mean().item()
    print(f"mittlerer Fehler im April: {mae:.3f} EUR/MWh")
