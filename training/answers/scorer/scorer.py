"""The answer scorer: reads a question and a sentence together and says how well the sentence answers the question."""
import math
import os
import sys

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
from model import Block, PAD, rms, rope_tables  # noqa: E402
from reference import read_file  # noqa: E402

QUESTION, CONTEXT, SENTENCE = 3, 4, 2
MAX_QUESTION, MAX_CONTEXT, MAX_SENTENCE = 40, 52, 96
# The end of a sentence that does not fit is left out.
MAX_PIECES = 128


class Scorer(nn.Module):
    """Blocks over the encoder's token table, which is not trained."""

    def __init__(self, encoder_file, layers=3, hidden=512, dropout=0.1):
        super().__init__()
        file = read_file(encoder_file)
        self.width, self.heads = file["shape"]["width"], file["shape"]["heads"]
        table = torch.from_numpy(file["table"].copy())
        self.register_buffer("table", table, persistent=False)
        self.register_buffer("unit", torch.nn.functional.normalize(table, dim=-1).bfloat16(), persistent=False)
        self.blocks = nn.ModuleList([Block(self.width, self.heads, hidden, layers) for _ in range(layers)])
        if hidden == file["shape"]["hidden"]:
            for block, known in zip(self.blocks, file["blocks"]):
                for name in ("qkv", "out", "gate_up", "down"):
                    getattr(block, name).weight.data.copy_(torch.from_numpy(known[name]))
        # Added to a token: its part of the input, whether the other side has it, how near the nearest one there is.
        self.part = nn.Parameter(torch.zeros(3, self.width))
        self.same = nn.Parameter(torch.randn(self.width) * 0.02)
        self.near = nn.Parameter(torch.randn(self.width) * 0.02)
        self.head = nn.Linear(self.width, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.constant_(self.head.bias, -2.0)
        self.dropout = nn.Dropout(dropout)

    def matches(self, ids, part):
        """For each token, whether the other side has the same, and the cosine of the nearest there. The context and the
        sentence are one side. Separators match nothing."""
        is_word = (ids > 4)
        asked = is_word & (part == 0)
        told = is_word & (part > 0)
        pairs = asked[:, :, None] & told[:, None, :]
        pairs = pairs | pairs.transpose(1, 2)
        same = ((ids[:, :, None] == ids[:, None, :]) & pairs).any(-1)
        rows = self.unit[ids]
        near = (rows @ rows.transpose(1, 2)).masked_fill(~pairs, 0.0).amax(-1).clamp(min=0)
        return same.float(), near.float()

    def forward(self, ids, part):
        real = ids != PAD
        with torch.no_grad():
            same, near = self.matches(ids, part)
        x = self.table[ids] * math.sqrt(self.width)
        x = x + self.part[part] + same[..., None] * self.same + near[..., None] * self.near
        cos, sin = rope_tables(ids.shape[1], self.width // self.heads, ids.device)
        mask = real[:, None, None, :].expand(-1, 1, ids.shape[1], -1)
        if torch.is_autocast_enabled(ids.device.type):
            x = x.to(torch.get_autocast_dtype(ids.device.type))
        for block in self.blocks:
            x = block(self.dropout(x), cos, sin, mask)
        return self.head(self.dropout(rms(x[:, 0]).float())).squeeze(-1)
