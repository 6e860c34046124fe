from trueloop import Schedule

schedule = Schedule("cosine", lr=0.1, total=100, warmup=10)
assert schedule(0) < schedule(9) <= 0.1  # optimizer steps count from 0
assert schedule(99) < 0.001
