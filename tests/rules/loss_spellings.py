"""The same script with its loss functions called as modules, line by line: `torch.nn.MSELoss()(a, b)`."""

from __future__ import annotations

import ast

__all__ = ["SPELLINGS", "respell"]

_MODULES = {
    "binary_cross_entropy": "BCELoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss",
    "cosine_embedding_loss": "CosineEmbeddingLoss",
    "cross_entropy": "CrossEntropyLoss",
    "huber_loss": "HuberLoss",
    "kl_div": "KLDivLoss",
    "l1_loss": "L1Loss",
    "margin_ranking_loss": "MarginRankingLoss",
    "mse_loss": "MSELoss",
    "nll_loss": "NLLLoss",
    "poisson_nll_loss": "PoissonNLLLoss",
    "smooth_l1_loss": "SmoothL1Loss",
    "triplet_margin_loss": "TripletMarginLoss",
}
_HOMES = ("F", "functional", "nn.functional", "torch.nn.functional")
_THREE = ("cosine_embedding_loss", "margin_ranking_loss", "triplet_margin_loss")  # functions of three tensors
_OWN = 'type("Criterion", (torch.nn.Module,), {{"forward": lambda _, *given: {function}(*given{options})}})'
SPELLINGS = ("of torch", "of the user")


def respell(text: str, spelling: str) -> str:
    """The script with its loss functions called as modules; unchanged if it has none. No line moves."""
    lines = text.splitlines()
    finder = _Outermost()
    finder.visit(ast.parse(text))
    for call in sorted(finder.found, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        if call.lineno == call.end_lineno:  # a call over several lines stays as it is
            row, begin, end = call.lineno - 1, call.col_offset, call.end_col_offset
            lines[row] = lines[row][:begin] + ast.unparse(_Respelled(spelling).visit(call)) + lines[row][end:]
    return "\n".join(lines) + "\n"


def _is_loss(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in _MODULES:
        return False
    tensors = 3 if function.attr in _THREE else 2
    return ast.unparse(function.value) in _HOMES and len(call.args) == tensors


class _Outermost(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: list[ast.Call] = []

    def visit_Call(self, node: ast.Call) -> None:
        if _is_loss(node):
            self.found.append(node)
        else:
            self.generic_visit(node)


class _Respelled(ast.NodeTransformer):
    def __init__(self, spelling: str) -> None:
        self.spelling = spelling

    def visit_Call(self, node: ast.Call) -> ast.Call:
        if not _is_loss(node):
            self.generic_visit(node)
            return node
        assert isinstance(node.func, ast.Attribute)
        options = ", ".join(f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in node.keywords)
        if self.spelling == "of the user":
            function = ast.unparse(node.func)
            made = _OWN.format(function=function, options=options and f", {options}") + "()"
        else:
            made = f"torch.nn.{_MODULES[node.func.attr]}({options})"
        module = ast.parse(made, mode="eval").body
        return ast.Call(module, [self.visit(argument) for argument in node.args], [])
