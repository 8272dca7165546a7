"""Prepare the training data: normalise, train the tokenizer, pack token ids.

    python prepare.py tokenizer TRAIN_DIR WORK_DIR     -> WORK_DIR/tokenizer.model
    python prepare.py pack      TRAIN_DIR WORK_DIR     -> WORK_DIR/packed.xz

TRAIN_DIR holds the pair files (`ih.jsonl.xz`, ...) and `texts.jsonl.xz`.
"""
import json
import lzma
import os
import random
import sys

import numpy as np

from tokenizer import normalise

PAIRS = ["ih", "ia", "cite", "law", "lawfirst", "body", "xpara", "xsec", "hko", "hen", "med"]
VOCABULARY = 32_000
SAMPLE_CHARACTERS = 60_000_000
MAX_PAIR_TOKENS = 192
SEED = 17


def read(folder, name):
    with lzma.open(os.path.join(folder, name + ".jsonl.xz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def all_texts(folder):
    for record in read(folder, "texts"):
        yield record["t"]
    for name in PAIRS:
        for record in read(folder, name):
            yield record["a"]
            yield record["b"]


def train_tokenizer(folder, work):
    import sentencepiece

    rng = random.Random(SEED)
    seen, lines, total = set(), [], 0
    for text in all_texts(folder):
        text = normalise(text)
        key = hash(text)
        if key in seen:
            continue
        seen.add(key)
        words = text.split(" ")
        for start in range(0, len(words), 48):
            lines.append(" ".join(words[start:start + 48]))
    rng.shuffle(lines)
    path = os.path.join(work, "sample.txt")
    with open(path, "w", encoding="utf-8") as out:
        for line in lines:
            out.write(line + "\n")
            total += len(line)
            if total > SAMPLE_CHARACTERS:
                break
    sentencepiece.SentencePieceTrainer.train(
        input=path,
        model_prefix=os.path.join(work, "tokenizer"),
        model_type="unigram",
        vocab_size=VOCABULARY,
        character_coverage=0.9998,
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",
        max_sentencepiece_length=16,
        pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
        pad_piece="<pad>", unk_piece="<unk>",
        control_symbols=["<mask>", "<q>", "<d>"],
        num_threads=2,
        shuffle_input_sentence=False,
        seed_sentencepiece_size=400_000,
    )


def pack(folder, work):
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=os.path.join(work, "tokenizer.model"))
    index, texts, limits, groups, pairs = {}, [], [], [], []

    def add(text, limit):
        text = normalise(text)
        if text in index:
            return index[text]
        index[text] = len(texts)
        texts.append(text)
        limits.append(limit)
        return index[text]

    for record in read(folder, "texts"):
        add(record["t"], 1 << 30)
    plain = len(texts)
    for name in PAIRS:
        for record in read(folder, name):
            groups.append(name + ":" + record["s"])
            pairs.append((add(record["a"], MAX_PAIR_TOKENS), add(record["b"], MAX_PAIR_TOKENS)))
    names = sorted(set(groups))
    number = {name: i for i, name in enumerate(names)}
    ids, lengths = [], []
    for start in range(0, len(texts), 10_000):
        for k, row in enumerate(model.encode(texts[start:start + 10_000], num_threads=2)):
            row = row[:limits[start + k]]
            lengths.append(len(row))
            ids.append(np.array(row, dtype=np.uint16))
    ids = np.concatenate(ids)
    header = {"plain": plain, "texts": len(texts), "tokens": int(ids.size), "pairs": len(pairs),
              "groups": names, "vocabulary": model.get_piece_size()}
    print({k: v for k, v in header.items() if k != "groups"})
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 7, "dict_size": 1 << 28, "lc": 0, "lp": 1, "pb": 1}]
    with lzma.open(os.path.join(work, "packed.xz"), "wb", format=lzma.FORMAT_XZ, filters=filters) as out:
        head = json.dumps(header).encode()
        out.write(len(head).to_bytes(4, "little") + head)
        out.write(np.array(lengths, dtype=np.uint16).tobytes())
        out.write(np.array([number[g] for g in groups], dtype=np.uint16).tobytes())
        table = np.array(pairs, dtype=np.uint32)
        out.write(table[:, 0].tobytes() + table[:, 1].tobytes())
        out.write(ids.tobytes())


if __name__ == "__main__":
    os.makedirs(sys.argv[3], exist_ok=True)
    {"tokenizer": train_tokenizer, "pack": pack}[sys.argv[1]](sys.argv[2], sys.argv[3])
