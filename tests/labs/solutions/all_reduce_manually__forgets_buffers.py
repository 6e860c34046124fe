# hint: which call overwrites a tensor by that of one rank?
import torch.distributed as dist


def same_weights(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)  # buffers are forgotten


def average_gradients(model):
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
            parameter.grad /= dist.get_world_size()
