"""Writes the file of the answer scorer that the program carries, and reference scores for its tests.

    python export.py ENCODER_FILE RUN.pt OUT_DIR

Writes OUT_DIR/scorer.bin and OUT_DIR/scorer-reference.json (texts, token ids, and scores of the unrounded model in fp32).
"""
import json
import os
import struct
import sys

import numpy as np
import torch

from pack import MAX_HEADER, MAX_LEAD, MAX_QUESTION, MAX_SENTENCE, MAX_TITLE
from scorer import CONTEXT, MAX_PIECES, QUESTION, SENTENCE, Scorer

from quantise import quantise_rows  # found by `scorer`
from reference import read_file, split  # found by `scorer`

EXAMPLES = [
    ("연차는 며칠 전에 신청해야 하나요?", "인사 규정 > 휴가", "", "", "연차 휴가는 사용일 3일 전까지 신청합니다."),
    ("연차는 며칠 전에 신청해야 하나요?", "인사 규정 > 휴가", "", "", "병가는 진단서를 내야 합니다."),
    ("과장 숙박비", "출장비 규정", "직급별 한도는 다음과 같습니다.", "| 직급 | 숙박비 | 식비 |", "| 과장 | 100,000원 | 20,000원 |"),
    ("과장 숙박비", "출장비 규정", "직급별 한도는 다음과 같습니다.", "| 직급 | 숙박비 | 식비 |", "| 대리 | 80,000원 | 20,000원 |"),
    ("Who do I call if the heating breaks?", "Building guide", "", "", "Facility problems: extension 311."),
    ("Who do I call if the heating breaks?", "Building guide", "", "", "The heating runs from October to April."),
    ("how many days of leave do new employees get", "취업규칙 > 제5장 휴가", "", "", "1년 미만 근무한 직원은 매월 1일의 유급 휴가를 받습니다."),
    ("", "", "", "", ""),
    ("🙂 ㅋㅋ 뭐야", "Ｆｕｌｌ　ｗｉｄｔｈ", "①", "", "\u0000 nul and​zero width"),
    ("긴 질문 " * 60, "긴 제목 " * 60, "앞 문장 " * 60, "열 " * 60, "긴 문장 " * 200),
]


def write(state, heads, layers, hidden, path):
    width = state["head.weight"].shape[1]
    out = bytearray(b"DORANANS" + struct.pack("<5I", 1, width, heads, hidden, layers))

    def floats(values):
        out.extend(np.asarray(values, dtype="<f4").tobytes())

    for name in ("part", "same", "near", "head.weight", "head.bias"):
        floats(state[name].float().flatten())
    for layer in range(layers):
        for name in ("qkv", "out", "gate_up", "down"):
            rows, scale = quantise_rows(state[f"blocks.{layer}.{name}.weight"], 8)
            floats(scale)
            out.extend(rows.numpy().tobytes())
    with open(path, "wb") as file:
        file.write(out)


def pieces(file, question, title, lead, header, sentence):
    """The ids of a pair and the part of each."""
    asked = split(file, question, MAX_QUESTION)
    context = split(file, title, MAX_TITLE) + split(file, lead, MAX_LEAD) + split(file, header, MAX_HEADER)
    told = split(file, sentence, MAX_SENTENCE)[:MAX_PIECES - 3 - len(asked) - len(context)]
    ids = [QUESTION, *asked, CONTEXT, *context, SENTENCE, *told]
    return ids, [0] * (len(asked) + 1) + [1] * (len(context) + 1) + [2] * (len(told) + 1)


def main():
    encoder_file, run, out = sys.argv[1:]
    state = torch.load(run, map_location="cpu")
    layers = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks."))
    hidden = state["blocks.0.down.weight"].shape[1]
    model = Scorer(encoder_file, layers, hidden, 0.0)
    model.load_state_dict({name: value.float() for name, value in state.items()})
    model.unit = model.unit.float()
    model.unit = torch.nn.functional.normalize(model.table, dim=-1)
    model.eval()
    write(state, model.heads, layers, hidden, os.path.join(out, "scorer.bin"))
    file, records = read_file(encoder_file), []
    for example in EXAMPLES:
        ids, part = pieces(file, *example)
        with torch.no_grad():
            score = model(torch.tensor([ids]), torch.tensor([part])).item()
        names = ("question", "title", "lead", "header", "sentence")
        records.append({**dict(zip(names, example)), "tokens": ids, "score": round(score, 4)})
    with open(os.path.join(out, "scorer-reference.json"), "w", encoding="utf-8") as target:
        json.dump(records, target, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
