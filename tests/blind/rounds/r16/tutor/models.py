from torch import nn


def teacher_net(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, n_out))


def student_net(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 24), nn.ReLU(), nn.Linear(24, n_out))
