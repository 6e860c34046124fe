import json
json.dump({"dataset": "fashion-mnist", "mean": 0.286, "std": 0.353}, open("ok/stats.json", "w"))
json.dump({"dataset": "imagenet-gray", "mean": 123.7, "std": 58.4}, open("bug/stats.json", "w"))
