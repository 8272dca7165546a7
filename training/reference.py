"""Reference reader of the encoder file: tokenizer and forward pass, with weights multiplied out.

    python reference.py ENCODER_FILE REFERENCE_JSON    compares with the vectors of the unrounded model

Uses numpy alone, apart from `load_model`, which fills the training model for `evaluate.py`.
"""
import hashlib
import json
import struct
import sys

import numpy as np

from tokenizer import normalise

MAX_TOKENS = 255
QUERY, DOCUMENT = 3, 4


def read_file(path):
    raw = open(path, "rb").read()
    assert raw[:8] == b"DORANENC" and struct.unpack("<I", raw[8:12])[0] == 1, "not an encoder of version 1"
    assert hashlib.sha256(raw[44:]).digest() == raw[12:44], "the content does not match its hash"
    at = 44

    def take(kind, *shape):
        nonlocal at
        count = int(np.prod(shape))
        part = np.frombuffer(raw, dtype=kind, count=count, offset=at).reshape(shape)
        at += part.nbytes
        return part

    vocabulary, width, heads, hidden, layers, bits, static = (int(v) for v in take("<u4", 7))
    scale = take("<f4", vocabulary, 1)
    if bits == 8:
        table = take("i1", vocabulary, width)
    else:
        packed = take("u1", vocabulary, width // 2)
        table = np.empty((vocabulary, width), dtype=np.int8)
        table[:, 0::2] = (packed & 15).astype(np.int8) - 8
        table[:, 1::2] = (packed >> 4).astype(np.int8) - 8

    def matrix(rows, columns):
        scale = take("<f4", rows, 1)
        return take("i1", rows, columns).astype(np.float32) * scale

    file = {"shape": dict(vocabulary=vocabulary, width=width, heads=heads, hidden=hidden, layers=layers,
                          static=bool(static)),
            "table": table.astype(np.float32) * scale, "logits": take("<f4", vocabulary), "pool": take("<f4", width)}
    file["blocks"] = [{"qkv": matrix(3 * width, width), "out": matrix(width, width),
                       "gate_up": matrix(2 * hidden, width), "down": matrix(width, hidden)} for _ in range(layers)]
    file["project"] = matrix(width, width)
    if static:
        file["project_static"] = matrix(width, width)
    pieces, scores, first_byte, worst = {}, [], None, np.inf
    for i in range(vocabulary):
        kind, score, length = struct.unpack_from("<BfB", raw, at)
        at += 6
        if kind == 0:
            pieces[raw[at:at + length].decode()] = i
            worst = min(worst, score)
        elif kind == 2 and first_byte is None:
            first_byte = i
        scores.append(score)
        at += length
    assert at == len(raw)
    file.update(pieces=pieces, scores=scores, first_byte=first_byte, unknown=worst - 10,
                longest=max(map(len, pieces)))
    return file


def split(file, text, most):
    """The token ids of a text, at most `most`: Viterbi over each word."""
    ids = []
    for word in normalise(text).split():
        word = "\u2581" + word
        best = [(0.0, 0, None)] + [(-np.inf, 0, None)] * len(word)
        for start in range(len(word)):
            base = best[start][0]
            single = False
            for end in range(start + 1, min(len(word), start + file["longest"]) + 1):
                piece = file["pieces"].get(word[start:end])
                if piece is not None:
                    single |= end == start + 1
                    if base + file["scores"][piece] > best[end][0]:
                        best[end] = (base + file["scores"][piece], start, piece)
            if not single and base + file["unknown"] > best[start + 1][0]:
                best[start + 1] = (base + file["unknown"], start, None)
        end, found = len(word), []
        while end:
            _, start, piece = best[end]
            found.append([piece] if piece is not None else
                         [file["first_byte"] + b for b in word[start:end].encode()])
            end = start
        for part in reversed(found):
            ids.extend(part)
        if len(ids) >= most:
            break
    return ids[:most]


def rms(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def encode(file, text, side):
    """The vector of a text; `side` is "query" or "passage"."""
    shape = file["shape"]
    width, heads = shape["width"], shape["heads"]
    head = width // heads
    ids = np.array([QUERY if side == "query" else DOCUMENT] + split(file, text, MAX_TOKENS))
    start = file["table"][ids] * np.sqrt(np.float32(width))
    half = head // 2
    angle = np.arange(len(ids))[:, None] * 10000.0 ** (-np.arange(half) / half)[None, :]
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def rotate(x):
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = start
    for block in file["blocks"]:
        q, k, v = (rms(x) @ block["qkv"].T).reshape(len(ids), 3, heads, head).transpose(1, 2, 0, 3)
        weight = softmax(rotate(q) @ rotate(k).transpose(0, 2, 1) / np.sqrt(np.float32(head)))
        x = x + (weight @ v).transpose(1, 0, 2).reshape(len(ids), width) @ block["out"].T
        gate, up = np.split(rms(x) @ block["gate_up"].T, 2, axis=-1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ block["down"].T
    h = rms(x)
    share = softmax(file["logits"][ids] + h @ file["pool"])
    vector = file["project"] @ (share @ h)
    if shape["static"]:
        vector = vector + file["project_static"] @ (share @ start)
    return vector / max(np.linalg.norm(vector), 1e-12)


def load_model(path):
    """The training model with the weights of an exported file."""
    import torch

    from model import Encoder

    file = read_file(path)
    state = {"table.weight": file["table"], "token_weight.weight": file["logits"][:, None], "pool.weight": file["pool"][None],
             "project.weight": file["project"]}
    if file["shape"]["static"]:
        state["project_static.weight"] = file["project_static"]
    for i, block in enumerate(file["blocks"]):
        state.update({f"blocks.{i}.{k}.weight": v for k, v in block.items()})
    model = Encoder(**file["shape"])
    model.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in state.items()})
    return model


if __name__ == "__main__":
    file = read_file(sys.argv[1])
    for record in json.load(open(sys.argv[2], encoding="utf-8")):
        vector = encode(file, record["text"], record["side"])
        wanted = np.array(record["vector"])
        print(f"cosine {vector @ wanted:.5f}, largest difference {np.abs(vector - wanted).max():.5f}: {record['text'][:40]!r}")
