"""Write the encoder file that the program carries, and reference vectors for its tests.

    python export.py RUN_DIR NAME WORK_DIR OUT_DIR [TABLE_BITS]

Reads RUN_DIR/NAME.pt, RUN_DIR/NAME.table.npy and WORK_DIR/tokenizer.model. Writes OUT_DIR/encoder.bin and
OUT_DIR/reference.json (texts, token ids, and vectors of the unrounded model in fp32).
"""
import hashlib
import json
import os
import struct
import sys

import numpy as np
import sentencepiece
import torch

from model import DOCUMENT, QUERY, Encoder
from quantise import quantise_rows
from reference import MAX_TOKENS, read_file, split
from tokenizer import normalise

TEXTS = [
    ("query", "회사 그만두면 밀린 월급은 언제까지 줘야 해?"),
    ("query", "계약을 해지하려면 며칠 전에 알려야 하나요?"),
    ("query", "how do I expose a Deployment as a Service"),
    ("query", "민법 제750조"),
    ("query", "Ｆｕｌｌ－ｗｉｄｔｈ ① ㎡ ﬁ ΑΣ İ"),
    ("query", ""),
    ("query", "   \t\n "),
    ("query", "\u0000nul\u0000 bytes\u0007 and​zero width﻿"),
    ("query", "🙂🙃 emoji 👩‍👩‍👧‍👦"),
    ("query", "日本語のテキスト 中文文本 Русский текст ภาษาไทย"),
    ("query", "3.14159 2026-11-17 1,234,567원"),
    ("passage", "제36조(금품 청산) 사용자는 근로자가 사망 또는 퇴직한 경우에는 그 지급 사유가 발생한 때부터 14일 이내에 임금, 보상금, "
                "그 밖의 모든 금품을 지급하여야 한다. 다만, 특별한 사정이 있을 경우에는 당사자 사이의 합의에 의하여 기일을 연장할 수 있다."),
    ("passage", "제750조(불법행위의 내용) 고의 또는 과실로 인한 위법행위로 타인에게 손해를 가한 자는 그 손해를 배상할 책임이 있다."),
    ("passage", "A Service in Kubernetes is an abstraction which defines a logical set of Pods and a policy to access them."),
    ("passage", "쿠버네티스에서 서비스는 파드의 논리적 집합과 그 집합에 접근하는 정책을 정의하는 추상화 개념이다."),
    ("passage", "▁underscores_and-hyphens/paths\\and.dots::crate::module<T>(&mut self) -> Result<(), Error>"),
    ("passage", "뷁 쀍 똠방각하 펲시콜라 햏 ㅋㅋㅋㅋ ㅠㅠ 괜찮아욬"),
    ("passage", "긴 글입니다. " * 120),
    ("passage", "word " * 600),
    ("passage", "가" * 500),
]


def write(state, shape, tokenizer, bits, path):
    body = bytearray()
    body += struct.pack("<7I", shape["vocabulary"], shape["width"], shape["heads"], shape["hidden"], shape["layers"],
                        bits, int(shape["static"]))

    def floats(values):
        body.extend(np.asarray(values, dtype="<f4").tobytes())

    def matrix(name):
        rows, scale = quantise_rows(state[name], 8)
        floats(scale.numpy())
        body.extend(rows.numpy().tobytes())

    rows, scale = quantise_rows(state["table.weight"], bits)
    floats(scale.numpy())
    rows = rows.numpy()
    if bits == 4:
        shifted = (rows + 8).astype(np.uint8)
        rows = shifted[:, 0::2] | (shifted[:, 1::2] << 4)
    body.extend(rows.tobytes())
    floats(state["token_weight.weight"].squeeze(1))
    floats(state["pool.weight"].squeeze(0))
    for layer in range(shape["layers"]):
        for name in ("qkv", "out", "gate_up", "down"):
            matrix(f"blocks.{layer}.{name}.weight")
    matrix("project.weight")
    if shape["static"]:
        matrix("project_static.weight")
    for i in range(shape["vocabulary"]):
        kind = 2 if tokenizer.is_byte(i) else 1 if tokenizer.is_control(i) or tokenizer.is_unknown(i) else 0
        text = tokenizer.id_to_piece(i).encode() if kind == 0 else b""
        body += struct.pack("<BfB", kind, tokenizer.get_score(i), len(text)) + text
    with open(path, "wb") as out:
        out.write(b"DORANENC" + struct.pack("<I", 1) + hashlib.sha256(body).digest() + body)
    return os.path.getsize(path)


def main():
    run, name, work, out = sys.argv[1:5]
    bits = int(sys.argv[5]) if len(sys.argv) > 5 else 8
    torch.set_grad_enabled(False)
    saved = torch.load(os.path.join(run, name + ".pt"))
    state = {k: v.float() for k, v in saved["state"].items()}
    state["table.weight"] = torch.from_numpy(np.load(os.path.join(run, name + ".table.npy"))).float()
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=os.path.join(work, "tokenizer.model"))
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, "encoder.bin")
    print(write(state, saved["shape"], tokenizer, bits, path), "bytes")
    model = Encoder(**saved["shape"])
    model.load_state_dict(state)
    file = read_file(path)
    records = []
    for side, text in TEXTS:
        ids = tokenizer.encode(normalise(text))
        assert ids[:MAX_TOKENS] == split(file, text, MAX_TOKENS), text
        row = [QUERY if side == "query" else DOCUMENT] + ids[:MAX_TOKENS]
        vector = model(torch.tensor([row]))[0]
        records.append({"side": side, "text": text, "tokens": row, "vector": [round(float(v), 6) for v in vector]})
    with open(os.path.join(out, "reference.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in records) + "\n]\n")


if __name__ == "__main__":
    main()
