"""Packs pairs of texts and texts in sentences for the first phase of the answer scorer.

    python prepare.py ENCODER_FILE TRAIN_DIR OUT.npz

TRAIN_DIR is that of the encoder (`../../README.md`). Needs numpy and tokenizers.
"""
import json
import lzma
import os
import random
import re
import sys

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
from reference import read_file  # noqa: E402
from tokenizer import normalise  # noqa: E402

# How many pairs of each file are used.
PAIRS = dict(ih=22000, ia=22000, cite=8000, law=22000, lawfirst=6000, xpara=50000, xsec=14000, hko=40000, hen=19000, med=15800, body=4000)
TEXTS = 16000
MAX_QUESTION, MAX_ANSWER, MAX_SENTENCE = 40, 84, 72


def fast_tokenizer(path):
    """The tokenizer of the encoder, computed by a library."""
    file = read_file(path)
    pieces = {number: piece for piece, number in file["pieces"].items()}
    first_byte, vocabulary = file["first_byte"], []
    for number in range(file["shape"]["vocabulary"]):
        if number in pieces:
            vocabulary.append((pieces[number], file["scores"][number]))
        elif first_byte <= number < first_byte + 256:
            vocabulary.append((f"<0x{number - first_byte:02X}>", -100.0))
        else:
            vocabulary.append((f"<control {number}>", -100.0))
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=1, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always", split=True)
    return tokenizer


def main():
    encoder, folder, out = sys.argv[1:]
    random.seed(5)
    tokenizer = fast_tokenizer(encoder)
    tokens, lengths, pairs = [], [], []

    def put(ids):
        tokens.extend(ids)
        lengths.append(len(ids))
        return len(lengths) - 1

    def cut(texts):
        return [one.ids for one in tokenizer.encode_batch([normalise(text) for text in texts], add_special_tokens=False)]

    def lines_of(name):
        lines = lzma.open(os.path.join(folder, name + ".jsonl.xz"), "rt", encoding="utf-8").readlines()
        random.shuffle(lines)
        return map(json.loads, lines)

    for number, (name, count) in enumerate(PAIRS.items()):
        rows = [row for row, _ in zip(lines_of(name), range(count))]
        for a, b in zip(cut([row["a"][:400] for row in rows]), cut([row["b"][:700] for row in rows])):
            if len(a) >= 2 and len(b) >= 4:
                pairs.append((number, put(a[:MAX_QUESTION]), put(b[:MAX_ANSWER])))
    sentences, bounds = [], [0]
    for row in lines_of("texts"):
        found = [text.strip() for text in re.split(r"(?<=[.?!다])\s+", row["t"][:1800]) if 12 <= len(text.strip()) <= 260][:14]
        if len(found) >= 5:
            sentences.extend(put(ids[:MAX_SENTENCE]) for ids in cut(found))
            bounds.append(len(sentences))
        if len(bounds) > TEXTS:
            break
    np.savez(out, tokens=np.array(tokens, np.uint16), lens=np.array(lengths, np.uint16), pairs=np.array(pairs, np.uint32),
             sents=np.array(sentences, np.uint32), bounds=np.array(bounds, np.uint32))


if __name__ == "__main__":
    main()
