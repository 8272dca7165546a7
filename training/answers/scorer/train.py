"""Trains the answer scorer. One process, one GPU.

    python train.py ENCODER_FILE PAIRS.npz QUESTIONS.npz OUT_DIR PLAN.json

First it learns from pairs of texts and from sentences of which words were left out, then from written questions. What it has
after the first part is kept in OUT_DIR/first.pt, and a second call goes on from there.
The score of a list of candidates is a softmax with one more choice, that none of them answers, whose logit is 0.
"""
import copy
import json
import os
import sys
import time

import numpy as np
import torch

from scorer import CONTEXT, MAX_CONTEXT, MAX_PIECES, MAX_QUESTION, MAX_SENTENCE, QUESTION, SENTENCE, Scorer

from reference import load_model  # found by `scorer`

DEVICE = "cuda"


class Texts:
    def __init__(self, tokens, lengths):
        self.tokens = torch.from_numpy(tokens.astype(np.int32)).to(DEVICE)
        self.lengths = torch.from_numpy(lengths.astype(np.int64)).to(DEVICE)
        self.starts = self.lengths.cumsum(0) - self.lengths

    def rows(self, texts, most):
        """Token ids of texts (-1 is an empty one), padded with 0, at most `most`."""
        lengths = torch.where(texts >= 0, self.lengths[texts.clamp(min=0)], 0).clamp(max=most)
        at = torch.arange(max(1, int(lengths.max())), device=DEVICE)[None, :]
        ids = self.tokens[(self.starts[texts.clamp(min=0)][:, None] + at).clamp(max=self.tokens.numel() - 1)].long()
        return torch.where(at < lengths[:, None], ids, 0), lengths


def join(question, context, sentence):
    """Rows of ids and parts: the separators with what follows them, without gaps. Each argument is padded ids and lengths."""
    count = question[0].shape[0]
    width = MAX_PIECES
    sentence = sentence[0], torch.minimum(sentence[1], width - 3 - question[1] - context[1])
    ids = torch.zeros(count, width, dtype=torch.long, device=DEVICE)
    part = torch.zeros(count, width, dtype=torch.long, device=DEVICE)
    start = torch.zeros(count, dtype=torch.long, device=DEVICE)
    for number, (mark, (rows, lengths)) in enumerate(((QUESTION, question), (CONTEXT, context), (SENTENCE, sentence))):
        ids.scatter_(1, start[:, None], mark)
        part.scatter_(1, start[:, None], number)
        at = torch.arange(rows.shape[1], device=DEVICE)[None, :]
        inside = at < lengths[:, None]
        place = (start[:, None] + 1 + at).clamp(max=width - 1)
        row = torch.arange(count, device=DEVICE)[:, None].expand_as(place)
        ids[row[inside], place[inside]] = rows[inside]
        part[row[inside], place[inside]] = number
        start = start + lengths + 1
    return ids, part


def drop(rows, lengths, share, generator):
    """Leaves out tokens with this chance (a number or one for each row); keeps at least one."""
    chance = torch.rand(rows.shape, device=DEVICE, generator=generator)
    share = share if torch.is_tensor(share) else torch.full((rows.shape[0],), share, device=DEVICE)
    inside = torch.arange(rows.shape[1], device=DEVICE)[None, :] < lengths[:, None]
    keep = inside & (chance >= share[:, None])
    keep[:, 0] |= ~keep.any(1)
    order = (~keep).to(torch.int8).argsort(dim=1, stable=True)
    return rows.gather(1, order) * (torch.arange(rows.shape[1], device=DEVICE)[None, :] < keep.sum(1)[:, None]), keep.sum(1)


def list_loss(scores, right, there):
    """-log of the share of the right candidates, or of none, for lists of candidates; those that are not `there` do not count."""
    scores = scores.float().masked_fill(~there, -1e4)
    whole = torch.cat([scores, torch.zeros_like(scores[:, :1])], 1).logsumexp(1)
    wanted = scores.masked_fill(~(there & (right > 0)), -1e4).logsumexp(1)
    return whole - torch.where((there & (right > 0)).any(1), wanted, 0.0)


class Pairs:
    def __init__(self, path, encoder_file):
        data = np.load(path)
        self.texts = Texts(data["tokens"], data["lens"])
        self.pairs = torch.from_numpy(data["pairs"].astype(np.int64)).to(DEVICE)
        self.sentences = torch.from_numpy(data["sents"].astype(np.int64)).to(DEVICE)
        self.bounds = torch.from_numpy(data["bounds"].astype(np.int64)).to(DEVICE)
        self.groups = [(self.pairs[:, 0] == g).nonzero().squeeze(1) for g in self.pairs[:, 0].unique()]
        encoder = load_model(encoder_file).to(DEVICE).eval()
        vectors = []
        with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16):
            for side, most in ((1, MAX_QUESTION), (2, MAX_SENTENCE)):
                part = []
                for chunk in self.pairs[:, side].split(8192):
                    rows, _ = self.texts.rows(chunk, most)
                    mark = torch.full((rows.shape[0], 1), QUESTION if side == 1 else CONTEXT, device=DEVICE)
                    part.append(encoder(torch.cat([mark, rows], 1)).half())
                vectors.append(torch.cat(part))
        self.asked, self.told = vectors

    def pair_batch(self, size, generator, rng, wrong=7):
        """Texts that belong together, each beside others that the encoder finds near."""
        weight = np.array([g.numel() ** 0.6 for g in self.groups])
        group = self.groups[rng.choice(len(self.groups), p=weight / weight.sum())]
        pool = group[torch.randint(0, group.numel(), (6144,), device=DEVICE, generator=generator)]
        own = pool[:size]
        near = (self.asked[own] @ self.told[pool].T).float()
        same = (self.pairs[own, 2][:, None] == self.pairs[pool, 2][None, :]) | (self.pairs[own, 1][:, None] == self.pairs[pool, 1][None, :])
        best = near.masked_fill(same, -9).topk(24, dim=1).indices
        pick = torch.rand(best.shape, device=DEVICE, generator=generator).topk(wrong - 1, dim=1).indices
        hard = pool[best.gather(1, pick)]
        easy = pool[torch.randint(0, pool.numel(), (size, 1), device=DEVICE, generator=generator)]
        lists = torch.cat([own[:, None], hard, easy], 1)
        right = torch.zeros_like(lists, dtype=torch.float)
        right[:, 0] = 1
        gone = torch.rand(size, device=DEVICE, generator=generator) < 0.1
        there = ~(gone[:, None] & (right > 0))
        question = drop(*self.texts.rows(self.pairs[own, 1], MAX_QUESTION), 0.1, generator)
        owner = torch.arange(size, device=DEVICE).repeat_interleave(lists.shape[1])
        sentence = self.texts.rows(self.pairs[lists.flatten(), 2], MAX_SENTENCE)
        empty = self.texts.rows(torch.full_like(owner, -1), 1)
        return join((question[0][owner], question[1][owner]), empty, sentence), right, there

    def sentence_batch(self, size, generator, wrong=7):
        """A sentence with words left out, beside the sentences around it."""
        text = torch.randint(0, self.bounds.numel() - 1, (size,), device=DEVICE, generator=generator)
        first, count = self.bounds[text], self.bounds[text + 1] - self.bounds[text]
        draw = torch.rand(size, 16, device=DEVICE, generator=generator)
        draw = draw.masked_fill(torch.arange(16, device=DEVICE)[None, :] >= count[:, None], -1)
        value, place = draw.topk(wrong + 1, dim=1)
        there = value >= 0
        right = torch.zeros_like(draw[:, :wrong + 1])
        right[:, 0] = 1
        gone = torch.rand(size, device=DEVICE, generator=generator) < 0.2
        there = there & ~(gone[:, None] & (right > 0))
        at = (first[:, None] + place).clamp(max=self.sentences.numel() - 1)
        asked = self.texts.rows(self.sentences[at[:, 0]], MAX_SENTENCE)
        share = 0.3 + 0.5 * torch.rand(size, device=DEVICE, generator=generator)
        rows, lengths = drop(*asked, share, generator)
        question = rows[:, :MAX_QUESTION], lengths.clamp(max=MAX_QUESTION)
        before = torch.where(place > 0, self.sentences[(at - 1).clamp(min=0)], -1).flatten()
        owner = torch.arange(size, device=DEVICE).repeat_interleave(place.shape[1])
        sentence = self.texts.rows(self.sentences[at.flatten()], MAX_SENTENCE)
        context = self.texts.rows(before, 24)
        return join((question[0][owner], question[1][owner]), context, sentence), right, there


class Questions:
    """Candidates of written questions, in lists."""

    def __init__(self, path):
        data = np.load(path)
        self.texts = Texts(data["tokens"], data["lens"])
        tensor = lambda name, kind: torch.from_numpy(data[name].astype(kind)).to(DEVICE)
        self.asked, self.fold = tensor("asked", np.int64), tensor("fold", np.int64)
        self.set, self.answerable = tensor("set", np.int64), tensor("answerable", np.int64)
        self.first, self.count = tensor("first", np.int64), tensor("count", np.int64)
        self.context, self.sentence = tensor("context", np.int64), tensor("sentence", np.int64)
        self.right = tensor("right", np.float32)

    def batch(self, numbers, width, generator=None, noise=0.0, gone=0.0):
        """Lists of `width` candidates: the first ones, or with a generator the right ones and some of the others."""
        size, longest = numbers.numel(), max(width, int(self.count[numbers].max()))
        at = torch.arange(longest, device=DEVICE)[None, :]
        inside = at < self.count[numbers][:, None]
        place = (self.first[numbers][:, None] + at).clamp(max=self.right.numel() - 1)
        right = torch.where(inside, self.right[place], 0)
        order = at.float().expand(size, -1)
        if generator is not None:
            order = torch.rand(size, longest, device=DEVICE, generator=generator) * longest / 2 + at
            order = order.masked_fill(right > 0, -1)
            if gone:
                without = torch.rand(size, device=DEVICE, generator=generator) < gone
                inside = inside & ~(without[:, None] & (right > 0))
        chosen = order.masked_fill(~inside, 1e9).argsort(1)[:, :width]
        place, right, there = place.gather(1, chosen), right.gather(1, chosen), inside.gather(1, chosen)
        question = self.texts.rows(self.asked[numbers], MAX_QUESTION)
        sentence = self.texts.rows(self.sentence[place.flatten()], MAX_SENTENCE)
        context = self.texts.rows(self.context[place.flatten()], MAX_CONTEXT)
        if noise:
            share = noise * 2 * torch.rand(size, device=DEVICE, generator=generator)
            question = drop(*question, share, generator)
            sentence = drop(*sentence, noise / 2, generator)
        owner = torch.arange(size, device=DEVICE).repeat_interleave(width)
        return join((question[0][owner], question[1][owner]), context, sentence), right, there, place


def autocast():
    return torch.autocast(DEVICE, torch.bfloat16)


def rate_at(progress, peak, warm=0.05):
    return peak * (progress / warm if progress < warm else 0.03 + 0.97 * 0.5 * (1 + np.cos(np.pi * (progress - warm) / (1 - warm))))


def learn(model, steps, peak, batches, seconds, label, ema=0.998, decay=0.05):
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=decay, fused=True)
    parameters = list(model.parameters())
    average = [p.detach().clone() for p in parameters]
    model.train()
    compiled = torch.compile(model, dynamic=False)
    for _ in range(2):
        ids, part = batches(0)[0]
        with autocast():
            compiled(ids, part).mean().backward()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    started, running, step = time.time(), [], 0
    while True:
        progress = max(step / steps, (time.time() - started) / seconds)
        if progress >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate_at(progress, peak)
        (ids, part), right, there = batches(step)[:3]
        with autocast():
            scores = compiled(ids, part)
        loss = list_loss(scores.view_as(right), right, there).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(average, [p.detach() for p in parameters], 1 - min(ema, (1 + step) / (10 + step)))
        running.append(loss.detach())
        step += 1
        if step % 200 == 0:
            print(f"{label} {step} loss {torch.stack(running[-200:]).mean().item():.4f} {time.time() - started:.0f}s", flush=True)
    with torch.no_grad():
        for p, mean in zip(parameters, average):
            p.copy_(mean)
    print(f"{label} done: {step} steps, {time.time() - started:.0f}s", flush=True)


@torch.no_grad()
def score_all(model, questions, numbers, width=64):
    model.eval()
    out = torch.full((questions.right.numel(),), float("nan"), device=DEVICE)
    for chunk in numbers.split(48):
        (ids, part), _, there, place = questions.batch(chunk, width)
        with autocast():
            scores = torch.cat([model(*rows) for rows in zip(ids.split(1024), part.split(1024))]).float()
        out[place[there]] = scores.view_as(place)[there]
    return out


def report(questions, scores, numbers, label):
    """Hits at the first place, and right answers at the odds that refuse 85 % of what cannot be answered."""
    best, odds, none = [], [], []
    scores, right, answerable = scores.cpu().numpy(), questions.right.cpu().numpy(), questions.answerable.cpu().numpy()
    firsts, counts = questions.first.cpu().numpy(), questions.count.cpu().numpy()
    for number in numbers.tolist():
        first, count = int(firsts[number]), int(counts[number])
        if count == 0:
            continue
        part = scores[first:first + count]
        at = int(np.nanargmax(part))
        confident = float(np.log(np.nansum(np.exp(part))))
        if answerable[number]:
            best.append(float(right[first + at]))
            odds.append(confident)
        else:
            none.append(confident)
    if not best:
        return
    line = f"{label}: {len(best)} answerable, first {np.mean(best):.3f}"
    if none:
        limit = np.quantile(none, 0.85)
        shown = np.array(odds) > limit
        auc = np.mean([np.mean((np.array(odds) > one) + 0.5 * (np.array(odds) == one)) for one in none])
        line += f", at 85 % refused right {np.mean(np.array(best) * shown):.3f} wrong {np.mean((1 - np.array(best)) * shown):.3f}, AUC {auc:.3f} ({len(none)} not)"
    print(line, flush=True)


def main():
    encoder_file, pairs_file, questions_file, out, plan = sys.argv[1:6]
    plan = json.load(open(plan))
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.enable_cudnn_sdp(False)
    started = time.time()
    pairs, questions = Pairs(pairs_file, encoder_file), Questions(questions_file)
    print(f"loaded {time.time() - started:.0f}s", flush=True)
    written = questions.set == 3
    validation = (written & (questions.fold == 0)).nonzero().squeeze(1)
    sets = {"dev": (questions.set == 0).nonzero().squeeze(1), "more": (questions.set == 1).nonzero().squeeze(1),
            "everyday": (questions.set == 2).nonzero().squeeze(1), "validation": validation}
    torch.manual_seed(plan["seed"])
    base = Scorer(encoder_file, plan.get("layers", 3), plan.get("hidden", 512), plan.get("dropout", 0.1)).to(DEVICE)
    generator = torch.Generator(DEVICE).manual_seed(plan["seed"])
    rng = np.random.default_rng(plan["seed"])
    first = plan["first"]

    def first_batch(step):
        if rng.random() < first.get("sentences", 0.35):
            return pairs.sentence_batch(first.get("batch", 256), generator)
        return pairs.pair_batch(first.get("batch", 256), generator, rng)

    saved = os.path.join(out, "first.pt")
    if os.path.exists(saved):
        base.load_state_dict(torch.load(saved, map_location=DEVICE))
    else:
        learn(base, first["steps"], first.get("rate", 6e-4), first_batch, first.get("seconds", 1e9), "pairs")
        torch.save(base.state_dict(), saved)
    known = copy.deepcopy(base.state_dict())
    every = torch.arange(questions.asked.numel(), device=DEVICE)
    results, states = {}, []
    for run in plan["runs"]:
        torch.manual_seed(run["seed"])
        generator = torch.Generator(DEVICE).manual_seed(run["seed"])
        rng = np.random.default_rng(run["seed"])
        model = Scorer(encoder_file, plan.get("layers", 3), plan.get("hidden", 512), run.get("dropout", 0.1)).to(DEVICE)
        model.load_state_dict(known)
        trained = ((questions.count > 0) & (questions.set >= run.get("sets", 2)) & ((questions.fold != 0) | ~written | run.get("all", False)))
        trained = trained.nonzero().squeeze(1)

        def batches(step):
            if rng.random() < run.get("mix", 0.2):
                return first_batch(step)
            numbers = trained[torch.randint(0, trained.numel(), (64,), device=DEVICE, generator=generator)]
            return questions.batch(numbers, 32, generator, run.get("noise", 0.1), run.get("gone", 0.1))

        learn(model, run["steps"], run.get("rate", 3e-4), batches, run.get("seconds", 1e9), run["name"], run.get("ema", 0.995))
        scores = score_all(model, questions, every[questions.count > 0])
        for name, numbers in sets.items():
            report(questions, scores, numbers, f"{run['name']} {name}")
        results[run["name"]] = scores.half().cpu().numpy()
        states.append({k: v.half().cpu() for k, v in model.state_dict().items()})
        torch.save(states[-1], os.path.join(out, run["name"] + ".pt"))
    mean = {k: sum(state[k].float() for state in states) / len(states) for k in states[0]}
    model.load_state_dict(mean)
    scores = score_all(model, questions, every[questions.count > 0])
    for name, numbers in sets.items():
        report(questions, scores, numbers, f"mean {name}")
    results["mean"] = scores.half().cpu().numpy()
    torch.save({k: v.half() for k, v in mean.items()}, os.path.join(out, "mean.pt"))
    np.savez_compressed(os.path.join(out, "scores.npz"), **results)
    print(f"total {time.time() - started:.0f}s", flush=True)


if __name__ == "__main__":
    main()
