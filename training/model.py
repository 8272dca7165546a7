"""The encoder: a token table, three pre-norm transformer blocks, a weighted mean and a projection."""
import math

import torch
import torch.nn.functional as F
from torch import nn

PAD, UNKNOWN, MASK, QUERY, DOCUMENT = 0, 1, 2, 3, 4
FIRST_BYTE = 5
EPSILON = 1e-6


def rms(x):
    return F.rms_norm(x, (x.shape[-1],), eps=EPSILON)


def rope_tables(length, head, device):
    half = head // 2
    frequency = 10000.0 ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
    angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * frequency[None, :]
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, width, heads, hidden, layers):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        for linear in (self.qkv, self.gate_up):
            nn.init.normal_(linear.weight, std=width ** -0.5)
        nn.init.normal_(self.out.weight, std=width ** -0.5 / math.sqrt(2 * layers))
        nn.init.normal_(self.down.weight, std=hidden ** -0.5 / math.sqrt(2 * layers))

    def forward(self, x, cos, sin, mask):
        batch, length, width = x.shape
        q, k, v = self.qkv(rms(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_up(rms(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Encoder(nn.Module):
    def __init__(self, vocabulary=32_000, width=256, heads=4, hidden=512, layers=3, static=False):
        super().__init__()
        self.shape = dict(vocabulary=vocabulary, width=width, heads=heads, hidden=hidden, layers=layers, static=static)
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width ** -0.5)
        self.blocks = nn.ModuleList([Block(width, heads, hidden, layers) for _ in range(layers)])
        self.token_weight = nn.Embedding(vocabulary, 1)
        nn.init.zeros_(self.token_weight.weight)
        self.pool = nn.Linear(width, 1, bias=False)
        nn.init.zeros_(self.pool.weight)
        self.project = nn.Linear(width, width, bias=False)
        nn.init.orthogonal_(self.project.weight)
        if static:
            self.project_static = nn.Linear(width, width, bias=False)
            nn.init.orthogonal_(self.project_static.weight)

    def hidden(self, ids, mask=None):
        """Returns the scaled table rows and the last hidden states."""
        start = self.table(ids) * math.sqrt(self.shape["width"])
        cos, sin = rope_tables(ids.shape[1], self.shape["width"] // self.shape["heads"], ids.device)
        x = start
        if torch.is_autocast_enabled(ids.device.type):
            x = x.to(torch.get_autocast_dtype(ids.device.type))
        for block in self.blocks:
            x = block(x, cos, sin, mask)
        return start, rms(x)

    def forward(self, ids):
        """Encodes padded rows of token ids (prefix first) to vectors of length 1."""
        real = ids != PAD
        start, h = self.hidden(ids, real[:, None, None, :].expand(-1, 1, ids.shape[1], -1))
        logit = self.token_weight(ids).squeeze(-1) + self.pool(h).squeeze(-1).float()
        weight = logit.masked_fill(~real, -torch.inf).softmax(dim=-1)
        vector = self.project(torch.einsum("bl,blw->bw", weight, h.float()))
        if self.shape["static"]:
            vector = vector + self.project_static(torch.einsum("bl,blw->bw", weight, start.float()))
        return F.normalize(vector.float(), dim=-1)
