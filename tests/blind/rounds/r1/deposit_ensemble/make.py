import json
base = dict(width=48, lr=2e-3, weight_decay=1e-2, epochs=10, batch_size=64)
json.dump(dict(base, seeds=[42, 42, 42, 42, 42]), open("bug/ensemble.json", "w"))
json.dump(dict(base, seeds=[42, 43, 44, 45, 46]), open("ok/ensemble.json", "w"))
