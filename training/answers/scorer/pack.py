"""Packs the candidates of questions for the answer scorer.

    python pack.py ENCODER_FILE OUT.npz dev=FILE more=FILE everyday=FILE written=FILE...

The files are written by the test `features_for_fitting` (see `../fit.py`). A fifth of the documents of the written questions is left for choosing (fold 0).
"""
import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../.."), os.path.join(HERE, "..")]
from fit import is_for_choosing, read  # noqa: E402
from reference import read_file, split  # noqa: E402

SETS = ["dev", "more", "everyday", "written"]
MOST_CANDIDATES = 60
MAX_QUESTION, MAX_SENTENCE = 40, 96
MAX_TITLE, MAX_LEAD, MAX_HEADER = 18, 14, 20


def main():
    encoder, out = sys.argv[1:3]
    file = read_file(encoder)
    tokens, lengths, known = [], [], {}

    def put(ids):
        key = tuple(ids)
        if not ids:
            return -1
        if key not in known:
            known[key] = len(lengths)
            tokens.extend(ids)
            lengths.append(len(ids))
        return known[key]

    pieces = {}

    def cut(text, most):
        if (text, most) not in pieces:
            pieces[text, most] = split(file, text, most)
        return pieces[text, most]

    columns = {name: [] for name in ("asked", "fold", "set", "answerable", "first", "count", "context", "sentence", "right", "order")}
    for argument in sys.argv[3:]:
        name, path = argument.split("=", 1)
        for question in read(path):
            # The best by words and meaning first.
            ranked = sorted(range(len(question["units"])), key=lambda at: question["units"][at]["place"])[:MOST_CANDIDATES]
            fold = 0 if is_for_choosing(question) else 1
            columns["asked"].append(put(cut(f"{question['before']} {question['ask']}", MAX_QUESTION)))
            columns["fold"].append(fold)
            columns["set"].append(SETS.index(name))
            columns["answerable"].append(int(question["answerable"]))
            columns["first"].append(len(columns["right"]))
            columns["count"].append(len(ranked))
            for at in ranked:
                unit = question["units"][at]
                columns["context"].append(put(context(cut, unit)))
                columns["sentence"].append(put(cut(unit["text"], MAX_SENTENCE)))
                columns["right"].append(question["labels"][at])
                columns["order"].append(unit["order"])
    np.savez_compressed(out, tokens=np.array(tokens, np.uint16), lens=np.array(lengths, np.uint16),
                        **{name: np.array(values, np.int32) for name, values in columns.items()})
    print({name: len(values) for name, values in columns.items()}, len(tokens))


def context(cut, unit):
    """What stands above and before a sentence: the title with its headings, the sentence or line before, the head of the table."""
    return cut(unit["title"], MAX_TITLE) + cut(unit["lead"], MAX_LEAD) + cut(unit["header"] or "", MAX_HEADER)


if __name__ == "__main__":
    main()
