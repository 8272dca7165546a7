"""Makes the golden vectors beside it, with other people's code: `tokenizers` cuts, `numpy` multiplies.

    python make.py                 a tiny BERT of random numbers, and golden.jsonl
    python make.py FOLDER          only golden.jsonl, for the sentence transformer in FOLDER

Needs numpy and tokenizers.
"""

import json
import math
import pathlib
import struct
import sys

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

TEXTS = [
    "",
    "A man is playing a guitar.",
    "That is a happy person",
    "That is a very happy person",
    "Today is a sunny day",
    "HELLO,   World!! café naïve\tÅngström",
    "unbelievably un##believable e-mail@example.com (x+y)=z",
    "漢字 and かな, 한국어 문장도 있습니다.",
    "zero\u0000width\u200bjoin\u00adhyphen \ufffd end",
    "«quoted» — dashes… and ‘marks’",
    "a" * 101 + " " + "b" * 100,
    "long " * 400,
]
WORDS = "a an and be believ day end happy hello is long man mail play sunny that the today very world un x y z person guitar quoted"
PARTS = "##able ##ably ##ing ##s ##e ##i ##n ##g ##t ##a ##l ##o ##h ##b"
SIGNS = ". , ! ( ) + = @ - # « » — … ‘ ’ 漢 字"


def tiny(folder):
    rng = np.random.default_rng(7)
    letters = "abcdefghijklmnopqrstuvwxyzかな가"
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + WORDS.split() + PARTS.split() + SIGNS.split()
    vocab += [letter for letter in letters if letter not in vocab]
    shape = {
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 24, "max_position_embeddings": 40, "layer_norm_eps": 1e-12,
    }
    width, wide = 16, 24
    tensors = {}

    def add(name, *size):
        tensors[name] = (rng.standard_normal(size) * 0.4).astype(np.float16)

    add("embeddings.word_embeddings.weight", len(vocab), width)
    add("embeddings.position_embeddings.weight", 40, width)
    add("embeddings.token_type_embeddings.weight", 2, width)
    norms = ["embeddings.LayerNorm"]
    for nth in range(2):
        at = f"encoder.layer.{nth}."
        layers = [("attention.self.query", width, width), ("attention.self.key", width, width),
                  ("attention.self.value", width, width), ("attention.output.dense", width, width),
                  ("intermediate.dense", width, wide), ("output.dense", wide, width)]
        for name, source, target in layers:
            add(f"{at}{name}.weight", target, source)
            add(f"{at}{name}.bias", target)
        norms += [f"{at}attention.output.LayerNorm", f"{at}output.LayerNorm"]
    for name in norms:
        tensors[f"{name}.weight"] = (1 + rng.standard_normal(width) * 0.2).astype(np.float16)
        tensors[f"{name}.bias"] = (rng.standard_normal(width) * 0.2).astype(np.float16)
    head, body = {}, b""
    for name, tensor in tensors.items():
        bytes_ = tensor.tobytes()
        head[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [len(body), len(body) + len(bytes_)]}
        body += bytes_
    head = json.dumps(head).encode()
    (folder / "config.json").write_text(json.dumps(shape, indent=2) + "\n")
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + body)


def tensors_of(folder):
    bytes_ = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", bytes_[:8])
    head, body = json.loads(bytes_[8:8 + length]), bytes_[8 + length:]
    head.pop("__metadata__", None)
    kinds = {"F16": np.float16, "F32": np.float32}
    return {
        name.removeprefix("bert."): np.frombuffer(body[slice(*entry["data_offsets"])], kinds[entry["dtype"]])
        .reshape(entry["shape"]).astype(np.float64)
        for name, entry in head.items() if entry["dtype"] in kinds
    }


def tokenizer_of(folder, most):
    if (folder / "tokenizer.json").exists():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
    else:
        vocab = {piece: id for id, piece in enumerate((folder / "vocab.txt").read_text().splitlines())}
        tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        ends = [("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
        tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.enable_truncation(most)
    return tokenizer


def vector(tensors, shape, pieces):
    erf = np.vectorize(math.erf)

    def dense(rows, name):
        return rows @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def norm(rows, name):
        centred = rows - rows.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + shape["layer_norm_eps"])
        return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    rows = (tensors["embeddings.word_embeddings.weight"][pieces]
            + tensors["embeddings.position_embeddings.weight"][: len(pieces)]
            + tensors["embeddings.token_type_embeddings.weight"][0])
    rows = norm(rows, "embeddings.LayerNorm")
    heads, width = shape["num_attention_heads"], shape["hidden_size"]
    for nth in range(shape["num_hidden_layers"]):
        at = f"encoder.layer.{nth}."
        query, key, value = (
            dense(rows, f"{at}attention.self.{part}").reshape(len(pieces), heads, width // heads).swapaxes(0, 1)
            for part in ("query", "key", "value"))
        looks = query @ key.swapaxes(1, 2) / math.sqrt(width // heads)
        looks = np.exp(looks - looks.max(-1, keepdims=True))
        looks /= looks.sum(-1, keepdims=True)
        seen = (looks @ value).swapaxes(0, 1).reshape(len(pieces), width)
        seen = norm(rows + dense(seen, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm")
        inner = dense(seen, f"{at}intermediate.dense")
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        rows = norm(seen + dense(inner, f"{at}output.dense"), f"{at}output.LayerNorm")
    mean = rows.mean(0)
    return mean / np.linalg.norm(mean)


def main():
    here = pathlib.Path(__file__).parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here
    if folder == here:
        tiny(here)
    shape = json.loads((folder / "config.json").read_text())
    most = 256
    if (folder / "sentence_bert_config.json").exists():
        most = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = tokenizer_of(folder, min(most, shape["max_position_embeddings"]))
    tensors, lines, vectors = tensors_of(folder), [], {}
    for text in TEXTS:
        pieces = tokenizer.encode(text).ids
        vectors[text] = vector(tensors, shape, pieces)
        lines.append(json.dumps({
            "text": text, "pieces": pieces, "vector": [round(float(x), 6) for x in vectors[text]],
        }, ensure_ascii=False))
    (folder / "golden.jsonl").write_text("\n".join(lines) + "\n")
    happy = vectors[TEXTS[2]]
    print("happy person: very happy", happy @ vectors[TEXTS[3]], "sunny day", happy @ vectors[TEXTS[4]])


if __name__ == "__main__":
    main()
