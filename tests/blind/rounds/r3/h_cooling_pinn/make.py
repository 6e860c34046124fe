import json

base = {"seed": 0, "rate": 0.8, "amplitude": 1.5, "frequency": 3.0, "t_end": 4.0, "collocation": [0.0, 4.0], "points": 64, "steps": 800, "lr": 0.005}
json.dump(base, open("ok/problem.json", "w"), indent=1)
json.dump({**base, "collocation": [0.0, 0.4]}, open("bug/problem.json", "w"), indent=1)
