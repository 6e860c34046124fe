"""Bestimmt die Blumenart aus fuenf Laengen; die Datei wird der Reihe nach gelesen."""
import sys
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

ARTEN = ["aster", "dahlie", "nelke", "rose", "tulpe", "veilchen"]


class MessDatei(IterableDataset):
    def __init__(self, pfad):
        self.pfad = Path(pfad)

    def __iter__(self):
        with self.pfad.open() as datei:
            next(datei)
            for zeile in datei:
                art, *werte = zeile.strip().split(";")
                yield torch.tensor([float(w) for w in werte]), ARTEN.index(art)


class Bestimmer(nn.Module):
    def __init__(self, eingang=5, mitte=32):
        super().__init__()
        self.netz = nn.Sequential(nn.Linear(eingang, mitte), nn.ReLU(), nn.Linear(mitte, len(ARTEN)))

    def forward(self, x):
        return self.netz(x)


def lernen(modell, lader, durchgaenge):
    optimierer = torch.optim.SGD(modell.parameters(), lr=0.1, momentum=0.9)
    verlust = nn.CrossEntropyLoss()
    for d in range(1, durchgaenge + 1):
        modell.train()
        summe = anzahl = 0
        for x, y in lader:
            optimierer.zero_grad()
            wert = verlust(modell(x), y)
            wert.backward()
            optimierer.step()
            summe += wert.item()
            anzahl += 1
        if d % 4 == 0:
            print(f"Durchgang {d:2d}: Verlust {summe / anzahl:.4f}")


@torch.no_grad()
def trefferquote(modell, lader):
    modell.eval()
    richtig = gesamt = 0
    for x, y in lader:
        richtig += (modell(x).argmax(1) == y).sum().item()
        gesamt += len(y)
    return richtig / gesamt


def haupt():
    ordner = Path(sys.argv[1])
    torch.manual_seed(4)
    modell = Bestimmer()
    lernen(modell, DataLoader(MessDatei(ordner / "messung.csv"), batch_size=20), durchgaenge=12)
    quote = trefferquote(modell, DataLoader(MessDatei(ordner / "pruefung.csv"), batch_size=100))
    print(f"Trefferquote {quote:.4f}")


if __name__ == "__main__":
    haupt()
