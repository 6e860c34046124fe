import json

json.dump({"level": 40, "width": 400}, open("ok/window.json", "w"))
json.dump({"level": -750, "width": 1200}, open("bug/window.json", "w"))
