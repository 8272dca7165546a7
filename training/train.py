"""Train the encoder: masked language model, then contrastive pairs. One process, one GPU.

    python train.py WORK_DIR OUT_DIR PLAN.json

PLAN.json: {"seed": 1, "mlm": {...}, "runs": [{"name": ..., ...}]}. Every run starts from the same masked-LM weights.
A phase ends at `steps`, or at `seconds` if that comes first (then the result depends on the machine).
"""
import copy
import json
import lzma
import os
import sys
import time

import numpy as np
import torch
import torch._dynamo
import torch.nn.functional as F

from evaluate import EvaluationSets
from model import DOCUMENT, FIRST_BYTE, MASK, PAD, QUERY, Encoder
from quantise import quantised_copy

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WEIGHTS = {"ih": .15, "ia": .17, "cite": .05, "law": .11, "lawfirst": .03, "body": .03, "xpara": .18, "xsec": .08,
           "hko": .08, "hen": .06, "med": .06}


class Data:
    def __init__(self, path):
        raw = lzma.open(path, "rb").read()
        size = int.from_bytes(raw[:4], "little")
        self.header = json.loads(raw[4:4 + size])
        at = 4 + size

        def take(kind, count):
            nonlocal at
            part = np.frombuffer(raw, dtype=kind, count=count, offset=at)
            at += part.nbytes
            return torch.from_numpy(part.astype(np.int64)).to(DEVICE)

        self.lengths = take(np.uint16, self.header["texts"])
        self.groups = take(np.uint16, self.header["pairs"])
        self.a = take(np.uint32, self.header["pairs"])
        self.b = take(np.uint32, self.header["pairs"])
        self.tokens = take(np.uint16, self.header["tokens"]).to(torch.int32)
        self.starts = self.lengths.cumsum(0) - self.lengths
        self.files = {}
        for i, name in enumerate(self.header["groups"]):
            rows = (self.groups == i).nonzero().squeeze(1)
            self.files.setdefault(name.split(":")[0], []).append(rows)

    def stream(self, generator):
        """All texts, the two sides of a pair next to each other, in random order, as one row of tokens."""
        plain, pairs = self.header["plain"], self.header["pairs"]
        order = torch.randperm(plain + pairs, device=DEVICE, generator=generator)
        first = torch.where(order < plain, order, self.a[(order - plain).clamp(min=0)])
        second = torch.where(order < plain, -1, self.b[(order - plain).clamp(min=0)])
        texts = torch.stack([first, second], 1).flatten()
        texts = texts[texts >= 0]
        lengths = self.lengths[texts]
        ends = lengths.cumsum(0)
        shift = torch.repeat_interleave(self.starts[texts] - (ends - lengths), lengths)
        return self.tokens[shift + torch.arange(shift.numel(), device=DEVICE)]

    def rows(self, texts, prefix, limit, starts=None, lengths=None):
        """Padded rows: prefix, then the first tokens of each text."""
        starts = self.starts[texts] if starts is None else starts
        lengths = (self.lengths[texts] if lengths is None else lengths).clamp(max=limit - 1)
        longest = int(lengths.max()) + 1
        width = next(w for w in (32, 64, 96, 128, 192, 256) if w >= min(longest, limit))
        at = torch.arange(width - 1, device=DEVICE)[None, :]
        inside = at < lengths[:, None]
        body = self.tokens[(starts[:, None] + at).clamp(max=self.tokens.numel() - 1)].long()
        body = torch.where(inside, body, PAD)
        return torch.cat([torch.full((body.shape[0], 1), prefix, device=DEVICE), body], dim=1)


def autocast():
    return torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda")


def compile_blocks(model, options):
    if options.get("compile", DEVICE == "cuda"):
        for block in model.blocks:
            block.compile(dynamic=False)


def schedule(optimizer, progress, peak, warm=0.04, floor=0.03):
    scale = min(1.0, progress / warm) if progress < warm else \
        floor + (1 - floor) * 0.5 * (1 + np.cos(np.pi * (progress - warm) / (1 - warm)))
    for group in optimizer.param_groups:
        group["lr"] = peak * scale * group["factor"]


def adamw(model, decay, table_factor=1.0):
    groups = [{"params": list(model.table.parameters()), "factor": table_factor},
              {"params": [p for n, p in model.named_parameters() if not n.startswith("table.")], "factor": 1.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.98), weight_decay=decay, fused=DEVICE == "cuda")


def masked_lm(model, data, options, generator):
    length, batch, share = options.get("length", 256), options.get("batch", 1024), options.get("share", 0.2)
    optimizer = adamw(model, 0.01)
    masked = int(length * share)
    vocabulary = data.header["vocabulary"]
    stream, at, step, started, tokens = None, 0, 0, time.time(), 0

    def loss_of(h, picked):
        logits = (h @ model.table.weight.T.to(h.dtype)).float()
        return F.cross_entropy(logits, picked)

    if options.get("compile", DEVICE == "cuda"):
        loss_of = torch.compile(loss_of, dynamic=False)
    while True:
        progress = max(step / options["steps"], (time.time() - started) / options.get("seconds", 1e9))
        if progress >= 1:
            break
        if stream is None or at + batch * length > stream.numel():
            stream = data.stream(generator)
            at = int(torch.randint(0, length, (1,), device=DEVICE, generator=generator))
        ids = stream[at:at + batch * length].view(batch, length).long()
        at += batch * length
        picks = torch.rand(batch, length, device=DEVICE, generator=generator).topk(masked, dim=1).indices
        picked = ids.gather(1, picks)
        chance = torch.rand(batch, masked, device=DEVICE, generator=generator)
        noise = torch.randint(FIRST_BYTE + 256, vocabulary, (batch, masked), device=DEVICE, generator=generator)
        replaced = torch.where(chance < 0.8, MASK, torch.where(chance < 0.9, noise, picked))
        ids = ids.scatter(1, picks, replaced)
        schedule(optimizer, progress, options.get("rate", 2e-3))
        with autocast():
            h = model.hidden(ids)[1]
            h = h.gather(1, picks[:, :, None].expand(-1, -1, h.shape[2])).flatten(0, 1)
            loss = loss_of(h, picked.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        tokens += ids.numel()
        if step in (1, 10, 50) or step % 250 == 0:
            print(f"mlm step {step} loss {loss.item():.3f} {time.time() - started:.0f}s "
                  f"{tokens / (time.time() - started) / 1e6:.2f}Mtok/s", flush=True)
    print(f"mlm done: {step} steps, {tokens / 1e6:.0f}M tokens, loss {loss.item():.3f}, {time.time() - started:.0f}s",
          flush=True)


def pair_batch(data, options, names, shares, generator, rng):
    """One batch of one source: rows of both sides and the texts' numbers."""
    name = rng.choice(names, p=shares)
    size = options.get("batch", 4096)
    a_limit, b_limit = options.get("a_limit", 96), options.get("b_limit", 192)
    if name == "crop":
        # A short stretch of a plain text, and a longer stretch that contains it or lies after it.
        texts = torch.randint(0, data.header["plain"], (size,), device=DEVICE, generator=generator)
        lengths, starts = data.lengths[texts], data.starts[texts]

        def uniform():
            return torch.rand(size, device=DEVICE, generator=generator)

        a_length = torch.minimum((6 + uniform() * 26).long(), (lengths // 3).clamp(min=1))
        b_length = torch.minimum((64 + uniform() * 120).long(), lengths)
        a_start = (uniform() * (lengths - a_length + 1)).long()
        inside = (a_start - (uniform() * b_length).long()).clamp(min=0)
        after = a_start + a_length
        b_start = torch.where((uniform() < 0.5) | (after + 24 > lengths), inside, after)
        b_start = torch.minimum(b_start, lengths - 1)
        b_length = torch.minimum(b_length, lengths - b_start)
        return (data.rows(None, QUERY, a_limit, starts + a_start, a_length),
                data.rows(None, DOCUMENT, b_limit, starts + b_start, b_length), texts, texts)
    groups = data.files[name]
    large = [g for g in groups if g.numel() >= size]
    if len(groups) > 1 and large and rng.random() < options.get("single", 0.6):
        weight = np.array([g.numel() ** 0.7 for g in large])
        rows = large[rng.choice(len(large), p=weight / weight.sum())]
    else:
        rows = torch.cat(groups)
    if rows.numel() > size:
        rows = rows[torch.randint(0, rows.numel(), (size,), device=DEVICE, generator=generator)]
    a, b = data.a[rows], data.b[rows]
    if name in ("xpara", "body") and rng.random() < options.get("swap", 0.3):
        a, b = b, a
    return data.rows(a, QUERY, a_limit), data.rows(b, DOCUMENT, b_limit), a, b


def info_nce(va, vb, same, temperature):
    scores = va @ vb.T / temperature
    scores = scores.masked_fill(same, -torch.inf)
    target = torch.arange(scores.shape[0], device=scores.device)
    return 0.5 * (F.cross_entropy(scores, target) + F.cross_entropy(scores.T, target))


def contrastive(model, data, options, seed):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    rng = np.random.default_rng(seed)
    weights = {**WEIGHTS, **options.get("weights", {})}
    names = [n for n in weights if weights[n] > 0]
    shares = np.array([weights[n] for n in names])
    shares = shares / shares.sum()
    optimizer = adamw(model, options.get("decay", 0.01), options.get("table_factor", 1.0))
    parameters = list(model.parameters())
    average = [p.detach().clone() for p in parameters]
    temperature, decay = options.get("temperature", 0.05), options.get("ema", 0.998)
    step, started, running = 0, time.time(), {}
    while True:
        progress = max(step / options["steps"], (time.time() - started) / options.get("seconds", 1e9))
        if progress >= 1:
            break
        rows_a, rows_b, a, b = pair_batch(data, options, names, shares, generator, rng)
        drop = options.get("drop", 0.0)
        if drop:
            for rows in (rows_a, rows_b):
                hit = (torch.rand(rows.shape, device=DEVICE, generator=generator) < drop) & (rows > DOCUMENT)
                rows[hit] = MASK
        same = (a[:, None] == a[None, :]) | (b[:, None] == b[None, :])
        same.fill_diagonal_(False)
        schedule(optimizer, progress, options.get("rate", 1e-3))
        with autocast():
            va, vb = model(rows_a), model(rows_b)
        loss = info_nce(va, vb, same, temperature)
        for size in options.get("matryoshka", [128]):
            loss = loss + 0.5 * info_nce(F.normalize(va[:, :size], dim=-1), F.normalize(vb[:, :size], dim=-1), same,
                                         temperature)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(average, [p.detach() for p in parameters], 1 - min(decay, (1 + step) / (10 + step)))
        step += 1
        if step in (1, 10, 50) or step % 250 == 0:
            print(f"pairs step {step} loss {loss.item():.3f} {time.time() - started:.0f}s", flush=True)
    with torch.no_grad():
        for p, mean in zip(parameters, average):
            p.copy_(mean)
    print(f"pairs done: {step} steps, {time.time() - started:.0f}s", flush=True)


def save(model, out, name):
    state = {k: v.detach().half().cpu() for k, v in model.state_dict().items()}
    table = state.pop("table.weight")
    torch.save({"shape": model.shape, "state": state}, os.path.join(out, name + ".pt"))
    np.save(os.path.join(out, name + ".table.npy"), table.numpy())


def main():
    work, out, plan = sys.argv[1], sys.argv[2], json.load(open(sys.argv[3]))
    torch.backends.cuda.matmul.allow_tf32 = True
    if DEVICE == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch._dynamo.config.suppress_errors = True
        torch._dynamo.config.cache_size_limit = 64
    started = time.time()
    data = Data(os.path.join(work, "packed.xz"))
    sets = EvaluationSets(os.path.join(work, "evaluation.npz"))
    print(f"{torch.__version__} {DEVICE}; loaded {data.header['tokens'] / 1e6:.1f}M tokens in {time.time() - started:.0f}s",
          flush=True)
    seed = plan["seed"]
    torch.manual_seed(seed)
    generator = torch.Generator(DEVICE).manual_seed(seed)
    base = Encoder(data.header["vocabulary"], **plan.get("shape", {})).to(DEVICE)
    compile_blocks(base, plan)
    if plan.get("mlm"):
        masked_lm(base, data, {"compile": plan.get("compile", DEVICE == "cuda"), **plan["mlm"]}, generator)
    trained = {k: v.clone() for k, v in base.state_dict().items()}
    finished, quality = {}, {}
    for run in plan["runs"]:
        if run.get("soup"):
            model = Encoder(**finished[run["soup"][0]].shape).to(DEVICE)
            states = [finished[name].state_dict() for name in run["soup"]]
            model.load_state_dict({k: sum(s[k] for s in states) / len(states) for k in states[0]})
        else:
            torch.manual_seed(run.get("seed", seed))
            model = Encoder(data.header["vocabulary"], **{**plan.get("shape", {}), **run.get("shape", {})}).to(DEVICE)
            model.load_state_dict(trained, strict=False)
            compile_blocks(model, plan)
            contrastive(model, data, run, run.get("seed", seed))
        finished[run["name"]] = model
        with torch.no_grad():
            for limit in run.get("limits", [256]):
                print(sets.report(model, f"{run['name']} L{limit}", limit), flush=True)
            quality[run["name"]] = sets.quality
            if run.get("detail"):
                print(sets.report(model, f"{run['name']} 128d", 256, dimensions=128), flush=True)
                for bits in (8, 4):
                    print(sets.report(quantised_copy(model, bits), f"{run['name']} int8, table {bits}", 256), flush=True)
        if run.get("save"):
            save(model, out, run["name"])
    for name in sorted(quality, key=quality.get, reverse=True)[:plan.get("save_best", 0)]:
        print(f"best: {name} {quality[name]:.4f}", flush=True)
        save(finished[name], out, name)
    print(f"total {time.time() - started:.0f}s", flush=True)


if __name__ == "__main__":
    main()
