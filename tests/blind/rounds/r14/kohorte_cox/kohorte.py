"""Erzeugt eine Patientenkohorte und rechnet den Konkordanzindex."""
import numpy as np


def erzeuge_kohorte(anzahl, seed):
    rng = np.random.default_rng(seed)
    merkmale = rng.normal(size=(anzahl, 8)).astype(np.float32)
    risiko = 1.1 * merkmale[:, 0] - 0.8 * merkmale[:, 1] + 0.6 * merkmale[:, 2] * merkmale[:, 3]
    ausfall = rng.exponential(np.exp(-risiko)) * 10
    zensur = rng.exponential(14, size=anzahl)
    zeit = np.minimum(ausfall, zensur).astype(np.float32)
    ereignis = (ausfall <= zensur).astype(np.float32)
    return merkmale, zeit, ereignis


def konkordanz(zeit, ereignis, score):
    gut = paare = 0.0
    for i in np.flatnonzero(ereignis):
        spaeter = zeit > zeit[i]
        paare += spaeter.sum()
        gut += (score[i] > score[spaeter]).sum() + 0.5 * (score[i] == score[spaeter]).sum()
    return gut / paare
