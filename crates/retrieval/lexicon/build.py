"""Makes `src/text/lexicon.bin` from the Arrow and npy files of the PyPI package pecab 1.0.8 (mecab-ko-dic, Apache-2.0).

Kept: Hangul words of up to eight syllables; simple nouns, names seen often, stems with their inflected forms, endings,
particles. Left out: compounds (they are read as their parts), rare names, prepared phrases. Contexts are joined into
few groups by k-means, costs are rounded. Needs numpy and pyarrow: `build.py WORDS.ARROW MATRIX.NPY OUT`.
"""
import ast
import collections
import re
import struct
import sys

import numpy as np
import pyarrow as pa

words_path, matrix_path, out_path = sys.argv[1:4]
hangul = re.compile("^[가-힣]+$")
table = pa.ipc.RecordBatchFileReader(pa.memory_map(words_path, "r")).read_all().to_pydict()
columns = ["surface", "left_id", "right_id", "word_cost", "POS", "POS_type", "morphemes"]
words = []
for surface, *fields in zip(*[table[name] for name in columns]):
    if hangul.match(surface):
        for left, right, cost, tags, kind, parts in zip(*[field.split("|") for field in fields]):
            words.append((surface, int(left), int(right), int(cost), tags, kind, parts))
joint = np.fromfile(matrix_path, dtype="<i2")[: 3822 * 2693].reshape(3822, 2693)

NOTHING, ITSELF, STEM, BOUND = 0, 1, 2, 4
readings = {}
for surface, left, right, cost, tags, kind, parts in words:
    first = tags.split("+")[0]
    if len(surface) > 8 or kind in ("PREANY", "COMP") or tags == "IC":
        continue
    if tags == "NNG" and len(surface) >= 2:
        # Words of law and contracts are rare in the corpus behind the costs.
        cost = min(cost, 3200)
    if tags == "NNP" and (cost >= 2900 or len(surface) < 2):
        continue
    sense = (ITSELF if tags in ("NNG", "NNP", "NR", "XR", "VV", "VA", "MAG") else NOTHING, 0, "")
    if kind == "INFL":
        if parts in ("None", "") or len(tags.split("+")) > 4:
            continue
        sense = (NOTHING, 0, "")
        tag, form = ast.literal_eval(parts)[0]
        if tag in ("VV", "VA", "NNG", "NP", "MAG", "NNP"):
            kept = 0
            while kept < min(len(form), len(surface)) and form[kept] == surface[kept]:
                kept += 1
            if not hangul.match(form) or len(form) - kept > 1:
                continue
            if tag != "NP":
                sense = (STEM, kept, form[kept:])
    if first[0] in "JE" or first in ("XSN", "XSV", "XSA", "VCP"):
        sense = (sense[0] | BOUND, *sense[1:])
    key = (surface, left, right, sense)
    readings[key] = min(cost, readings.get(key, cost))

lefts = collections.Counter(key[1] for key in readings)
rights = collections.Counter(key[2] for key in readings)


def groups(ids, vectors, count):
    """The forty most used contexts stay alone, the others go to the nearest of 56 centres."""
    alone = [i for i, _ in count.most_common(40)]
    rest = [i for i in ids if i not in alone]
    points = vectors(rest).astype(np.float32)
    centres = points[np.random.RandomState(0).choice(len(rest), 56, replace=False)]
    for _ in range(25):
        far = (points**2).sum(1)[:, None] - 2 * points @ centres.T + (centres**2).sum(1)[None]
        nearest = far.argmin(1)
        for at in range(56):
            if (nearest == at).any():
                centres[at] = points[nearest == at].mean(0)
    group = {i: at for at, i in enumerate(alone)}
    group.update({i: len(alone) + int(at) for i, at in zip(rest, nearest)})
    return group, len(alone) + 56


left_ids, right_ids = sorted(lefts), sorted(rights)
left_group, left_count = groups(left_ids, lambda rest: joint[np.ix_(right_ids, rest)].T, lefts)
right_group, right_count = groups(right_ids, lambda rest: joint[np.ix_(rest, left_ids)], rights)
costs = np.zeros((right_count + 1, left_count + 1))
in_left = [[i for i in left_ids if left_group[i] == at] for at in range(left_count)]
in_right = [[i for i in right_ids if right_group[i] == at] for at in range(right_count)]
for r, right in enumerate(in_right):
    for l, left in enumerate(in_left):
        if left and right:
            costs[r, l] = joint[np.ix_(right, left)].mean()
    if right:
        costs[r, left_count] = joint[right, 0].mean()
for l, left in enumerate(in_left):
    if left:
        costs[right_count, l] = joint[0, left].mean()
costs = np.clip(np.round(costs / 32), -127, 127).astype(np.int8)

by_surface = collections.defaultdict(dict)
for (surface, left, right, sense), cost in readings.items():
    key = (left_group[left], right_group[right], sense)
    by_surface[surface][key] = min(cost, by_surface[surface].get(key, cost))
classes, body, before = {}, bytearray(), ""
for surface in sorted(by_surface):
    shared = 0
    while shared < min(len(before), len(surface)) and before[shared] == surface[shared]:
        shared += 1
    body.append(shared << 4 | (len(surface) - shared))
    for syllable in surface[shared:]:
        body += struct.pack("<H", ord(syllable) - 0xAC00)
    cheapest = sorted(by_surface[surface].items(), key=lambda item: item[1])[:12]
    body.append(len(cheapest))
    for (left, right, (kind, kept, last)), cost in cheapest:
        body += struct.pack("<H", classes.setdefault((left, right, kind), len(classes)))
        body.append(max(0, min(255, (cost + 4000) // 56)))
        if kind & 3 == STEM:
            body.append(kept | (0x80 if last else 0))
            if last:
                body += struct.pack("<H", ord(last) - 0xAC00)
    before = surface
listed = b"".join(bytes(key) for key in sorted(classes, key=classes.get))
head = b"DKL1" + struct.pack("<HHHI", left_count, right_count, len(classes), len(by_surface))
with open(out_path, "wb") as out:
    out.write(head + costs.tobytes() + listed + bytes(body))
