"""The dataclasses that torch.export writes a graph as: what fields a .pt2 file may have, and of which types."""

from torch._export.serde.schema import ExportedProgram, PayloadConfig
from torch._export.serde.union import _Union as Union

__all__ = ["ExportedProgram", "PayloadConfig", "Union"]

# ExportedProgram: models/*.json. PayloadConfig: data/*/*_config.json. Union: base of those of which one field is
# written. 2.11+
