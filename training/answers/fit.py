"""Fits the weights by which the built-in model ranks sentences and decides whether to quote one.

    features() { ANSWER_FEATURES=$PWD/$1.jsonl cargo test -p doran-offline features_for_fitting -- --ignored; }
    features dev
    export ANSWER_QUESTIONS=$PWD/evals/answers/more/questions.jsonl ANSWER_DOCUMENTS=$PWD/evals/answers/more/documents
    features more
    python3 training/answers/written.py written
    for group in written/*; do
        export ANSWER_QUESTIONS=$PWD/$group/questions.jsonl ANSWER_DOCUMENTS=$PWD/$group/documents
        features $group && cat $group.jsonl >> written.jsonl
    done
    python3 training/answers/fit.py dev.jsonl more.jsonl written.jsonl

Writes `crates/offline/src/data/weights.tsv`. The ranking is a conditional logit over the candidates of a question. The
confidence is a logistic regression over the best candidate, once with all candidates and once without the right ones,
because a question whose answer is not there must be refused. The figures are cross-validated: each question is answered
with weights that were fitted without the documents of a sixth of the questions, its own among them. Of the written questions only
those are used that the answer scorer has not learned from. With `--ablate` they
are told again without each feature in turn, and nothing is written; with `-v` each question is told. Needs numpy.
"""

import hashlib
import json
import math
import os
import random
import re
import sys

import numpy as np

# What the ranking and the confidence go by; the other features have no weight there.
RANKING = ["own", "name_near", "meaning", "kind_misses", "rank", "scorer"]
CONFIDENCE = ["own", "meaning", "kind_misses", "scorer"]
FOLDS = 6
MOST_QUOTED, CLOSE, NEAR = 3, 1.5, 0.30
WITHOUT_RIGHT_WEIGHT = 0.5
# The written questions are many and hard: each of the others counts as several of them.
OTHERS_COUNT = 4
WEIGHTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../crates/offline/src/data/weights.tsv")

# A sentence that only leads to a list is quoted with the list.
LEAD_IN = re.compile("다음(과 같|의 |\\s*각\\s*호| 순서)|[:：]$|following")
# A question that names an article is answered with the article, whatever the confidence.
NAMES_PLACE = re.compile("제\\s*\\d+\\s*[조항]|section \\d", re.I)


def is_for_choosing(question):
    """Whether a written question is of the fifth of the documents that the answer scorer does not learn from."""
    document = question["id"].rsplit("-", 1)[0]
    return int(hashlib.sha256(document.encode()).hexdigest(), 16) % 5 == 0


def fold(text):
    return " ".join(text.split()).lower()


def label(question, unit):
    """Whether a candidate holds an answer, or a part of one."""
    if not question["answerable"] or unit["document"] not in question["answer_in"]:
        return 0
    text = said(question, unit)
    if any(fold(other) in text for other in question["must_not"]):
        return 0
    return int(any(any(is_in(question, one, text) for one in group) for group in question["must"]))


def said(question, unit):
    """What is compared with the answers: what is quoted of a unit. The written answers are whole sentences and rows as they stand."""
    return fold(unit["text"] if question["is_written"] else unit["quoted"])


def is_in(question, answer, text):
    answer = fold(answer)
    return answer in text or (question["is_written"] and len(text) > 12 and text in answer)


def grade(question, quoted):
    """Whether these candidates together are a right answer. A list is quoted whole, so one part of it is enough here."""
    if any(question["labels"][at] and LEAD_IN.search(question["units"][at]["text"]) for at in quoted):
        return 1
    texts = [said(question, question["units"][at]) for at in quoted]
    if not question["answerable"] or any(fold(other) in " ".join(texts) for other in question["must_not"]):
        return 0
    texts = texts if question["is_written"] else [" ".join(texts)]
    there = [any(is_in(question, one, text) for one in group for text in texts) for group in question["must"]]
    return int(any(there) if question["kind"] in ("comparison", "list", "procedure") else all(there))


def minimise(loss_and_gradient, width, steps=250, rate=0.08):
    """Adam over all rows, with a falling rate."""
    weights, first, second = np.zeros(width), np.zeros(width), np.zeros(width)
    for step in range(1, steps + 1):
        gradient = loss_and_gradient(weights)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient ** 2
        now = rate * (1 - 0.9 * step / steps)
        weights = weights - now * (first / (1 - 0.9 ** step)) / (np.sqrt(second / (1 - 0.99 ** step)) + 1e-9)
    return weights


def fit_ranking(questions, names, l2=1.0):
    columns = [questions[0]["names"].index(name) for name in names]
    used = [q for q in questions if q["labels"].any() and not q["labels"].all()]
    x = np.concatenate([q["x"][:, columns] for q in used])
    right = np.concatenate([q["labels"] for q in used]).astype(float)
    sizes = np.array([len(q["labels"]) for q in used])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    of = np.repeat(np.arange(len(sizes)), sizes)

    def gradient(weights):
        scores = x @ weights
        odds = np.exp(scores - np.maximum.reduceat(scores, starts)[of])
        wanted = odds * right
        shares = odds / np.add.reduceat(odds, starts)[of] - wanted / np.add.reduceat(wanted, starts)[of]
        return l2 * weights + x.T @ shares

    weights = np.zeros(len(questions[0]["names"]))
    weights[columns] = minimise(gradient, len(columns))
    return weights


def fit_logistic(rows, l2=3.0):
    x = np.array([row[0] for row in rows])
    y, weight = np.array([row[1] for row in rows], float), np.array([row[2] for row in rows])
    mean, deviation = x.mean(0), x.std(0) + 1e-6
    z = np.hstack([(x - mean) / deviation, np.ones((len(x), 1))])

    def gradient(weights):
        p = 1 / (1 + np.exp(-np.clip(z @ weights, -30, 30)))
        return z.T @ (weight * (p - y)) + l2 * np.append(weights[:-1], 0)

    weights = minimise(gradient, z.shape[1])
    plain = weights[:-1] / deviation
    return np.append(plain, weights[-1] - plain @ mean)


def quoted(question, weights, without_right=False):
    """The best candidate, and those that are quoted: the best, and others that are close."""
    scores = question["x"] @ weights
    order = [at for at in np.argsort(-scores, kind="stable") if not (without_right and question["labels"][at])]
    if not order:
        return None, []
    best = question["units"][order[0]]

    def is_quoted(at):
        unit = question["units"][at]
        is_row_beside = unit["kind"] == "Row" and all(unit[key] == best[key] for key in ("kind", "source", "block"))
        return scores[at] > scores[order[0]] - CLOSE and not is_row_beside

    return order[0], order[:1] + list(filter(is_quoted, order[1:]))[:MOST_QUOTED - 1]


def fit(questions, ranking, confidence):
    """The weights of the ranking and those of the confidence, with its constant at the end."""
    questions = [question for question in questions if question["units"]]
    questions = [question for question in questions for _ in range(1 if question["is_written"] else OTHERS_COUNT)]
    weights = fit_ranking(questions, ranking)
    columns = [questions[0]["names"].index(name) for name in confidence]
    rows = []
    for question in questions:
        if NAMES_PLACE.search(question["ask"]):
            continue
        best, picked = quoted(question, weights)
        rows.append((question["x"][best][columns], grade(question, picked), 1.0))
        best, _ = quoted(question, weights, True)
        if best is not None and question["labels"].any():
            rows.append((question["x"][best][columns], 0, WITHOUT_RIGHT_WEIGHT))
    fitted = fit_logistic(rows)
    whole = np.zeros(len(questions[0]["names"]) + 1)
    whole[columns], whole[-1] = fitted[:-1], fitted[-1]
    return weights, whole


def read(path, chosen_only=False):
    questions = [json.loads(line) for line in open(path, encoding="utf-8")]
    name = os.path.basename(path).split(".")[0]
    if chosen_only and name == "written":
        questions = [question for question in questions if is_for_choosing(question)]
    documents = sorted({name for question in questions for name in question["answer_in"]})
    chance = random.Random(1)
    chance.shuffle(documents)
    for question in questions:
        question["is_written"] = name == "written"
        for place, unit in enumerate(question["units"]):
            unit["place"] = place
        units = question["units"] = sorted(question["units"], key=lambda unit: unit["order"])
        labels = [label(question, unit) for unit in units]
        for at, unit in enumerate(units):
            below = any(lab and other["lead"] == unit["text"] for other, lab in zip(units, labels))
            if below and LEAD_IN.search(unit["text"]):
                labels[at] = 1
        question["labels"] = np.array(labels)
        question["x"] = np.array([unit["features"] for unit in units]).reshape(len(units), len(question["names"]))
        question["fold"] = documents.index(question["answer_in"][0]) % FOLDS if question["answer_in"] else chance.randrange(FOLDS)
        question["set"] = name
    return questions


def cross_validated(questions, ranking, confidence):
    """Each question with whether what is quoted for it is right, how sure that is, and what is quoted."""
    scored = []
    for number in range(FOLDS):
        weights, sure = fit([question for question in questions if question["fold"] != number], ranking, confidence)
        scored += scored_with([question for question in questions if question["fold"] == number], weights, sure)
    return scored


def figures(scored, threshold):
    told = []
    for name in dict.fromkeys(question["set"] for question, *_ in scored):
        answerable = [one for one in scored if one[0]["answerable"] and one[0]["set"] == name]
        others = [one for one in scored if not one[0]["answerable"] and one[0]["set"] == name]
        found = sum(bool(question["labels"].any()) for question, *_ in answerable)
        chosen = sum(right for _, right, _, _ in answerable)
        right = sum(right and p >= threshold for _, right, p, _ in answerable)
        wrong = sum(not right and p >= threshold for _, right, p, _ in answerable)
        refused = sum(p < threshold for _, _, p, _ in others)
        told.append(f"{name} found {found}, chosen {chosen}, right {right}, wrong {wrong} of {len(answerable)}, "
                    f"refused {refused} of {len(others)}")
    return "; ".join(told)


def scored_with(questions, weights, sure):
    """Each question with whether what is quoted for it is right, how sure that is, and what is quoted."""
    scored = []
    for question in questions:
        best, picked = quoted(question, weights) if question["units"] else (None, [])
        told = " | ".join(question["units"][at]["quoted"][:60] for at in picked)
        if best is None:
            scored.append((question, 0, 0.0, told))
        elif NAMES_PLACE.search(question["ask"]):
            scored.append((question, 1, 1.0, told))
        else:
            p = 1 / (1 + math.exp(-(question["x"][best] @ sure[:-1] + sure[-1])))
            scored.append((question, grade(question, picked), p, told))
    return scored


def main():
    paths = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    questions = [question for path in paths for question in read(path, True)]
    scored = cross_validated(questions, RANKING, CONFIDENCE)
    for threshold in np.arange(NEAR - 0.1, NEAR + 0.11, 0.05):
        print(f"from {threshold:.2f}: {figures(scored, threshold)}")
    if "--ablate" in sys.argv:
        for name in RANKING:
            print(f"ranking without {name}:", figures(cross_validated(questions, [n for n in RANKING if n != name], CONFIDENCE), NEAR))
        for name in CONFIDENCE:
            print(f"confidence without {name}:", figures(cross_validated(questions, RANKING, [n for n in CONFIDENCE if n != name]), NEAR))
        return
    if "-v" in sys.argv:
        for question, right, p, told in sorted(scored, key=lambda one: one[2]):
            kind = "R" if right else ("-" if question["answerable"] else "U")
            print(f"{kind} {p:.2f} {question['id']} {question['ask'][:60]} => {told}")
    weights, sure = fit(questions, RANKING, CONFIDENCE)
    rows = [f"{name}\t{weights[at]:.3f}\t{sure[at]:.3f}" for at, name in enumerate(questions[0]["names"])
            if name in RANKING + CONFIDENCE]
    head = "# Written by training/answers/fit.py: feature, its weight in the ranking, its weight in the confidence."
    with open(WEIGHTS, "w", encoding="utf-8") as file:
        file.write("\n".join([head, *rows, f"constant\t0\t{sure[-1]:.3f}"]) + "\n")


if __name__ == "__main__":
    main()
