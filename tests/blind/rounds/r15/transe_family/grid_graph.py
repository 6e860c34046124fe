"""A toy knowledge graph."""
import torch


def build_graph(side=12):
    """places on a grid; relations are fixed moves"""
    moves = [(0, 1), (1, 0), (1, 1), (-1, 2), (2, -1), (-2, -1)]
    triples = []
    for r, (dy, dx) in enumerate(moves):
        for y in range(side):
            for x in range(side):
                if 0 <= y + dy < side and 0 <= x + dx < side:
                    triples.append((y * side + x, r, (y + dy) * side + x + dx))
    return torch.tensor(triples), side * side, len(moves)
