"""Measure an encoder on the development sets, alone and fused with a plain BM25.

    python evaluate.py pack SETS_DIR WORK_DIR          -> WORK_DIR/evaluation.npz (tokens, relevance, BM25 lists)
    python evaluate.py file WEIGHTS WORK_DIR           measures an exported file

BM25: character bigrams of Hangul, whole Latin words and numbers, k1 1.2, b 0.75; a rule that adds the article that a
query names by number. Fusion: scores divided by the best one, `0.8 * BM25 + 0.2 * cosine` (both scaled to 0..1 per
query); if the query has no Hangul and the passages have, 0.1 and 0.9.
"""
import collections
import json
import math
import os
import re
import sys

import numpy as np

SETS = ["ko-law", "ko-contract", "ko-docs", "ko-wiki", "xl-k8s", "en-sci", "en-contract"]
LISTED = 300
LIMIT = 384


def terms(text):
    for run in re.findall(r"[가-힣]+|[a-z]+|[0-9]+|[一-鿿]+", text):
        if "가" <= run[0] <= "힣" and len(run) > 1:
            yield from (run[i:i + 2] for i in range(len(run) - 1))
        else:
            yield run


def bm25(passages, queries, k1=1.2, b=0.75):
    counts = [collections.Counter(terms(p)) for p in passages]
    sizes = np.array([sum(c.values()) for c in counts], dtype=np.float64)
    mean = sizes.mean()
    lists = collections.defaultdict(list)
    for i, c in enumerate(counts):
        for t, n in c.items():
            lists[t].append((i, n))
    for q in queries:
        scores = np.zeros(len(passages))
        for t, times in collections.Counter(terms(q)).items():
            found = lists.get(t)
            if not found:
                continue
            at, n = np.array(found).T
            idf = math.log(1 + (len(passages) - len(at) + 0.5) / (len(at) + 0.5))
            scores[at] += times * idf * n * (k1 + 1) / (n + k1 * (1 - b + b * sizes[at] / mean))
        yield scores


def named_article(query, passage):
    found = re.search(r"제?\s*(\d+)\s*조(?:의\s*(\d+))?", query)
    if not found or not passage.get("article"):
        return False
    number = found[1] + ("의" + found[2] if found[2] else "")
    if re.sub("[제조]", "", passage["article"]) != number:
        return False
    return bool(passage.get("scoped")) or passage["doc"].replace(" ", "") in query.replace(" ", "")


def pack(folder, work):
    import sentencepiece

    from tokenizer import normalise

    model = sentencepiece.SentencePieceProcessor(model_file=os.path.join(work, "tokenizer.model"))
    out = {}

    def tokens(name, texts):
        rows = [row[:LIMIT] for row in model.encode([normalise(t) for t in texts])]
        out[name + ".ids"] = np.concatenate([np.array(r, dtype=np.uint16) for r in rows])
        out[name + ".lengths"] = np.array([len(r) for r in rows], dtype=np.uint16)

    for name in SETS:
        passages = [json.loads(line) for line in open(os.path.join(folder, name, "passages.jsonl"), encoding="utf-8")]
        queries = [json.loads(line) for line in open(os.path.join(folder, name, "queries.jsonl"), encoding="utf-8")]
        texts = [p["title"] + " " + p["text"] for p in passages]
        tokens(name + ".p", texts)
        tokens(name + ".q", [q["text"] for q in queries])
        number = {p["id"]: i for i, p in enumerate(passages)}
        docs = {d: i for i, d in enumerate(sorted({p.get("doc", "") for p in passages}))}
        types = sorted({q["type"] for q in queries})
        relevant = [[number[r] for r in q["relevant"] if r in number] for q in queries]
        out[name + ".types"] = np.array(types)
        out[name + ".type"] = np.array([types.index(q["type"]) for q in queries])
        out[name + ".doc"] = np.array([docs[p.get("doc", "")] for p in passages])
        out[name + ".scope"] = np.array([docs[q["scope"]] if q.get("scope") else -1 for q in queries])
        out[name + ".relevant"] = np.concatenate([np.array(r, dtype=np.int32) for r in relevant])
        out[name + ".relevants"] = np.array([len(r) for r in relevant])
        hangul = re.compile("[가-힣]")
        out[name + ".across"] = np.array([
            not hangul.search(q["text"]) and bool(hangul.search(texts[0])) for q in queries])
        at = np.zeros((len(queries), LISTED), dtype=np.uint16)
        score = np.zeros((len(queries), LISTED), dtype=np.float32)
        scores = bm25([normalise(t) for t in texts], [normalise(q["text"]) for q in queries])
        for i, (q, s) in enumerate(zip(queries, scores)):
            if q.get("scope"):
                s[out[name + ".doc"] != docs[q["scope"]]] = 0
            if re.search(r"\d\s*조", q["text"]):
                top = s.max()
                for k, p in enumerate(passages):
                    if named_article(q["text"], {**p, "scoped": q.get("scope") and p["doc"] == q["scope"]}):
                        s[k] += top + 1
            best = np.argsort(-s, kind="stable")[:LISTED]
            at[i, :len(best)], score[i, :len(best)] = best, s[best]
        out[name + ".bm25.at"], out[name + ".bm25.score"] = at, score.astype(np.float16)
        print(name, len(texts), int(out[name + ".p.lengths"].mean()), int(out[name + ".q.lengths"].mean()))
    np.savez_compressed(os.path.join(work, "evaluation.npz"), **out)


def padded(ids, lengths, prefix, limit):
    starts = np.cumsum(lengths.astype(np.int64)) - lengths
    sizes = np.minimum(lengths.astype(np.int64), limit - 1)
    rows = np.zeros((len(sizes), int(sizes.max()) + 1), dtype=np.int64)
    rows[:, 0] = prefix
    for i, (s, n) in enumerate(zip(starts, sizes)):
        rows[i, 1:1 + n] = ids[s:s + n]
    return rows


class EvaluationSets:
    def __init__(self, path):
        self.data = dict(np.load(path))
        self.names = [n for n in SETS if n + ".type" in self.data]

    def vectors(self, model, name, side, limit):
        import torch

        from model import DOCUMENT, QUERY

        d = self.data
        rows = padded(d[f"{name}.{side}.ids"], d[f"{name}.{side}.lengths"], QUERY if side == "q" else DOCUMENT, limit)
        order = np.argsort((rows != 0).sum(1), kind="stable")
        out = None
        device = next(model.parameters()).device
        for start in range(0, len(order), 256):
            part = order[start:start + 256]
            chunk = rows[part]
            width = -(-int((chunk != 0).sum(1).max()) // 64) * 64
            fixed = np.zeros((256, width), dtype=np.int64)
            fixed[:, 0] = 3
            fixed[:len(part), :chunk.shape[1]] = chunk[:, :width]
            v = model(torch.from_numpy(fixed).to(device))[:len(part)].float().cpu().numpy()
            if out is None:
                out = np.zeros((len(order), v.shape[1]), dtype=np.float32)
            out[part] = v
        return out

    def score(self, name, passages, queries, weight):
        """nDCG@10 of every query: (vectors alone, BM25 alone, fused)."""
        d = self.data
        cosine = queries @ passages.T
        found = []
        starts = np.cumsum(d[name + ".relevants"]) - d[name + ".relevants"]
        for i in range(len(cosine)):
            inside = np.ones(len(passages), bool)
            if d[name + ".scope"][i] >= 0:
                inside = d[name + ".doc"] == d[name + ".scope"][i]
            words = np.zeros(len(passages))
            score = d[name + ".bm25.score"][i].astype(np.float64)
            listed = score > 0
            words[d[name + ".bm25.at"][i][listed]] = score[listed]
            words /= max(words.max(), 1e-9)
            c = cosine[i].astype(np.float64)
            low = c[inside].min()
            near = (c - low) / max(c[inside].max() - low, 1e-9)
            w = 0.9 if d[name + ".across"][i] else weight
            wanted = set(d[name + ".relevant"][starts[i]:starts[i] + d[name + ".relevants"][i]].tolist())
            row = []
            for s in (near, words + 1e-9 * near, (1 - w) * words + w * near):
                s = np.where(inside, s, -1)
                best = np.argsort(-s, kind="stable")[:10]
                gain = sum(1 / math.log2(k + 2) for k, at in enumerate(best.tolist()) if at in wanted and s[at] > -1)
                ideal = sum(1 / math.log2(k + 2) for k in range(min(len(wanted), 10)))
                row.append(gain / ideal if ideal else 0.0)
            found.append(row)
        return np.array(found)

    def measure(self, model, limit=256, dimensions=None, weight=0.2):
        result = {}
        for name in self.names:
            p, q = (self.vectors(model, name, side, limit) for side in "pq")
            if dimensions:
                p, q = p[:, :dimensions], q[:, :dimensions]
                p = p / np.linalg.norm(p, axis=1, keepdims=True)
                q = q / np.linalg.norm(q, axis=1, keepdims=True)
            scores = self.score(name, p, q, weight)
            result[name] = scores.mean(0)
            types = self.data[name + ".types"]
            if name == "ko-law":
                for k, kind in enumerate(types):
                    result[kind] = scores[self.data[name + ".type"] == k].mean(0)
        return result

    def report(self, model, title, limit=256, dimensions=None, weight=0.2):
        model.eval()
        found = self.measure(model, limit, dimensions, weight)
        model.train()
        # One number to choose runs by: the mean over the sets, fused, and a little of the vectors alone.
        self.quality = float(np.mean([found[n][2] + 0.2 * found[n][0] for n in self.names]))
        lines = [f"== {title}"]
        for k, label in enumerate(("vectors", "words", "fused")):
            lines.append(f"{label:8}" + " ".join(f"{n} {v[k]:.3f}" for n, v in found.items()))
        return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "pack":
        pack(sys.argv[2], sys.argv[3])
    else:
        import torch

        from reference import load_model

        torch.set_grad_enabled(False)
        sets = EvaluationSets(os.path.join(sys.argv[3], "evaluation.npz"))
        model = load_model(sys.argv[2])
        for dimensions in (None, 128):
            print(sets.report(model, f"{sys.argv[2]} {dimensions or 'all'} dimensions", 256, dimensions))
