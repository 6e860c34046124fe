"""DeepSurv-artiges Cox-Modell auf einer Patientenkohorte."""
import torch
import torch.nn as nn

from kohorte import erzeuge_kohorte, konkordanz


def cox_verlust(log_risiko, zeit, ereignis):
    """Negative partielle Log-Likelihood; Risikomenge = alle mit mindestens gleicher Beobachtungszeit."""
    folge = torch.argsort(zeit, descending=True)
    log_risiko, ereignis = log_risiko[folge], ereignis[folge]
    log_nenner = torch.logcumsumexp(log_risiko, dim=0)
    return -((log_risiko - log_nenner) * ereignis).sum() / ereignis.sum().clamp(min=1)


class RisikoNetz(nn.Module):
    def __init__(self, eingang, breite=32):
        super().__init__()
        self.schichten = nn.Sequential(
            nn.Linear(eingang, breite), nn.SELU(),
            nn.Linear(breite, breite), nn.SELU(),
            nn.Linear(breite, 1),
        )

    def forward(self, x):
        return self.schichten(x).squeeze(-1)


def trainiere(netz, x, zeit, ereignis, epochen=25, losgroesse=128):
    opt = torch.optim.Adam(netz.parameters(), lr=2e-3, weight_decay=1e-3)
    for epoche in range(1, epochen + 1):
        netz.train()
        summe, lose = 0.0, 0
        for los in torch.randperm(len(x)).split(losgroesse):
            verlust = cox_verlust(netz(x[los]), zeit[los], ereignis[los])
            opt.zero_grad()
            verlust.backward()
            opt.step()
            summe += verlust.item()
            lose += 1
        if epoche % 5 == 0:
            print(f"Epoche {epoche:2d}  Verlust {summe / lose:.4f}")


def hauptprogramm():
    torch.manual_seed(31)
    x, zeit, ereignis = (torch.from_numpy(a) for a in erzeuge_kohorte(1500, 31))
    x_test, zeit_test, ereignis_test = erzeuge_kohorte(500, 32)
    netz = RisikoNetz(x.shape[1])
    trainiere(netz, x, zeit, ereignis)
    netz.eval()
    with torch.no_grad():
        score = netz(torch.from_numpy(x_test)).numpy()
    print(f"Konkordanzindex Test {konkordanz(zeit_test, ereignis_test, score):.3f}")


if __name__ == "__main__":
    hauptprogramm()
