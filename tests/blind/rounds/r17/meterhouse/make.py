import csv
import datetime as dt
import numpy as np

R = np.random.default_rng(8)
START = dt.datetime(2024, 1, 8)


def house(n):
    k = np.arange(n)
    hour = (k % 96) / 4
    day = k // 96
    tout = 4 + 3 * np.sin(2 * np.pi * (hour - 9) / 24) + np.repeat(R.normal(0, 3, n // 96 + 1), 96)[:n] + R.normal(0, .3, n)
    wake = ((hour > 6.5) & (hour < 9)) | ((hour > 17) & (hour < 23))
    people = np.where(wake, R.integers(1, 5, n), R.integers(0, 2, n))

    def bursts(p, lo, hi):
        a = np.zeros(n, int)
        for i in range(n):
            if R.random() < p * (2.2 if wake[i] else .5):
                a[i:i + R.integers(lo, hi)] = 1
        return a

    hob, wash, ev, boiler = bursts(.04, 1, 4), bursts(.02, 3, 6), bursts(.012, 5, 14), bursts(.06, 1, 3)
    y = .12 + .03 * people + .35 * hob + .2 * wash + .9 * ev + .5 * boiler * (1 + .05 * (8 - tout).clip(0)) + .02 * (12 - tout).clip(0) ** 1.2
    y = (y + R.normal(0, .04, n)).clip(.02)
    rows = [[(START + dt.timedelta(minutes=15 * int(i))).isoformat(), f"{tout[i]:.1f}", people[i], hob[i], wash[i], ev[i], boiler[i]] for i in k]
    return rows, y


N1, N2 = 96 * 42, 96 * 14
rows, y = house(N1 + N2)
head = ["time", "outdoor_c", "people_home", "hob_on", "washer_on", "ev_plugged", "boiler_on"]
for side in ("bug", "ok"):
    for name, a, b, lag in (("january", 0, N1, 6 if side == "bug" else 0), ("march", N1, N1 + N2, 0)):
        with open(f"{side}/{name}_sensors.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(head)
            w.writerows(rows[a:b])
        part = np.roll(y[a:b], lag)
        with open(f"{side}/{name}_meter.csv", "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["time", "kwh"])
            w.writerows([rows[a + i][0], f"{part[i]:.3f}"] for i in range(b - a))
