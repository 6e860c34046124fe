text = """seed = 0
envs = 32
steps = 900
batch = 128
lr = 0.001
gamma = 0.95
eps_end = 0.1
target_sync = {}
"""
open("ok/options.txt", "w").write(text.format(20))
open("bug/options.txt", "w").write(text.format(20000))
