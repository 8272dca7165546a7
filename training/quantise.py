"""Symmetric quantisation of weight rows to 8 or 4 bits."""
import copy

import torch


def quantise_rows(weight, bits):
    """Returns integer rows and one scale a row: weight ~ rows * scale."""
    weight = weight.detach().float()
    top = (1 << (bits - 1)) - 1
    largest = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12)
    best, best_scale = None, None
    # With few levels it pays to clip: take the scale with the least squared error.
    for share in ([1.0] if bits == 8 else [1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6]):
        scale = (largest * share / top).half().float().clamp(min=1e-7)
        error = ((weight / scale).round().clamp(-top, top) * scale - weight).square().sum(dim=1, keepdim=True)
        if best is None:
            best, best_scale = error, scale
        else:
            best_scale = torch.where(error < best, scale, best_scale)
            best = torch.minimum(error, best)
    rows = (weight / best_scale).round().clamp(-top, top).to(torch.int8)
    return rows, best_scale.squeeze(1)


def quantised_copy(model, table_bits):
    """A copy whose matrices and table carry the rounding of the exported file."""
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for name, parameter in copied.named_parameters():
            if parameter.ndim == 2 and not name.startswith(("token_weight", "pool")):
                rows, scale = quantise_rows(parameter, table_bits if name.startswith("table") else 8)
                parameter.copy_(rows.to(parameter.device) * scale[:, None].to(parameter.device))
    return copied
