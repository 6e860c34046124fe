def strides_of(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def flat_index(index, strides, offset):
    return offset + sum(at * stride for at, stride in zip(index, strides, strict=True))


def index_of(flat, shape):
    index = []
    for stride in strides_of(shape):
        at, flat = divmod(flat, stride)
        index.append(at)
    return tuple(index)
