"""Fits the weights by which the built-in model ranks sentences and decides whether to quote one.

    features() { ANSWER_FEATURES=$PWD/$1.jsonl cargo test -p doran-offline features_for_fitting -- --ignored; }
    features dev
    export ANSWER_QUESTIONS=$PWD/evals/answers/more/questions.jsonl ANSWER_DOCUMENTS=$PWD/evals/answers/more/documents
    features more
    python3 training/answers/everyday.py everyday
    export ANSWER_QUESTIONS=$PWD/everyday/questions.jsonl ANSWER_DOCUMENTS=$PWD/everyday/documents
    features everyday
    python3 training/answers/fit.py dev.jsonl more.jsonl -- everyday.jsonl

The ranking is a conditional logit over the candidates of a question. The confidence is a logistic regression over the best
candidate, once with all candidates and once without the right ones, because a question whose answer is not there must be
refused. The figures are for the files before `--`, each question answered with weights that were
fitted without the documents of a sixth of the questions, its own among them. Needs numpy.
"""

import json
import math
import random
import re
import sys

import numpy as np

NAMES = ["own", "around", "beside", "passage", "focus_own", "name_near", "meaning", "kind_misses", "rank", "first_passage",
         "other_model", "fragment", "lesser_document"]
# What the ranking and the confidence go by; the other features have no weight there.
RANKING = ["own", "beside", "passage", "focus_own", "name_near", "meaning", "kind_misses", "rank", "fragment"]
CONFIDENCE = ["own", "around", "kind_misses", "rank", "first_passage", "other_model", "fragment", "lesser_document"]
FOLDS = 6
MOST_QUOTED, CLOSE, MAX_LEAD = 3, 2.5, 3.0
WITHOUT_RIGHT_WEIGHT = 0.5

# A sentence that only leads to a list is quoted with the list.
LEAD_IN = re.compile("다음(과 같|의 |\\s*각\\s*호| 순서)|[:：]$|following")
# A question that names an article is answered with the article, whatever the confidence.
NAMES_PLACE = re.compile("제\\s*\\d+\\s*[조항]|section \\d", re.I)


def fold(text):
    return " ".join(text.split()).lower()


def label(question, unit):
    """Whether a candidate holds an answer, or a part of one."""
    if not question["answerable"] or unit["document"] not in question["answer_in"]:
        return 0
    text = fold(unit["quoted"])
    if any(fold(other) in text for other in question["must_not"]):
        return 0
    return int(any(any(fold(one) in text for one in group) for group in question["must"]))


def grade(question, quoted):
    """Whether these candidates together are a right answer. A list is quoted whole, so one part of it is enough here."""
    if any(question["labels"][at] and LEAD_IN.search(question["units"][at]["text"]) for at in quoted):
        return 1
    text = fold(" ".join(question["units"][at]["quoted"] for at in quoted))
    if not question["answerable"] or any(fold(other) in text for other in question["must_not"]):
        return 0
    there = [any(fold(one) in text for one in group) for group in question["must"]]
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


def fit_ranking(questions, l2=1.0):
    columns = [NAMES.index(name) for name in RANKING]
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

    weights = np.zeros(len(NAMES))
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
    """The order of the candidates, and those that are quoted: the best, and others that are close."""
    scores = question["x"] @ weights
    order = [at for at in np.argsort(-scores, kind="stable") if not (without_right and question["labels"][at])]
    best = question["units"][order[0]] if order else None

    def is_quoted(at):
        unit = question["units"][at]
        is_row_beside = unit["kind"] == "Row" and all(unit[key] == best[key] for key in ("kind", "source", "block"))
        is_fragment = question["x"][at][NAMES.index("fragment")] > 0
        return scores[at] > scores[order[0]] - CLOSE and not is_row_beside and not is_fragment

    return order, order[:1] + list(filter(is_quoted, order[1:]))[:MOST_QUOTED - 1], scores


def confidence_features(question, order, scores):
    lead = min(scores[order[0]] - scores[order[1]], MAX_LEAD) if len(order) > 1 else MAX_LEAD
    return np.append(question["x"][order[0]][[NAMES.index(name) for name in CONFIDENCE]], lead)


def confidence_rows(questions, weights):
    rows = []
    for question in questions:
        if not question["units"] or NAMES_PLACE.search(question["ask"]):
            continue
        order, picked, scores = quoted(question, weights)
        rows.append((confidence_features(question, order, scores), grade(question, picked), 1.0))
        if question["answerable"] and question["labels"].any():
            order, picked, scores = quoted(question, weights, True)
            if order:
                rows.append((confidence_features(question, order, scores), 0, WITHOUT_RIGHT_WEIGHT))
    return rows


def read(path, is_full):
    questions = [json.loads(line) for line in open(path, encoding="utf-8")]
    documents = sorted({name for question in questions for name in question["answer_in"]})
    chance = random.Random(1)
    chance.shuffle(documents)
    for question in questions:
        units = question["units"] = sorted(question["units"], key=lambda unit: unit["order"])
        labels = [label(question, unit) for unit in units]
        for at, unit in enumerate(units):
            below = any(lab and other["lead"] == unit["text"] for other, lab in zip(units, labels))
            if below and LEAD_IN.search(unit["text"]):
                labels[at] = 1
        question["labels"] = np.array(labels)
        question["x"] = np.array([unit["features"] for unit in units]).reshape(len(units), len(NAMES))
        question["fold"] = documents.index(question["answer_in"][0]) % FOLDS if question["answer_in"] else chance.randrange(FOLDS)
        question["is_full"] = is_full
        question["set"] = path
    return questions


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "-v"]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    questions = [question for place, path in enumerate(arguments) if path != "--" for question in read(path, place < at)]
    scored = []
    for number in range(FOLDS):
        train = [question for question in questions if question["fold"] != number]
        weights = fit_ranking(train)
        confidence = fit_logistic(confidence_rows(train, weights))
        for question in (question for question in questions if question["fold"] == number and question["is_full"]):
            if not question["units"]:
                scored.append((question, 0, 0.0, ""))
                continue
            order, picked, scores = quoted(question, weights)
            sure = confidence_features(question, order, scores) @ confidence[:-1] + confidence[-1]
            names_place = NAMES_PLACE.search(question["ask"])
            right = 1 if names_place else grade(question, picked)
            told = " | ".join(question["units"][at]["quoted"][:60] for at in picked)
            scored.append((question, right, 1.0 if names_place else 1 / (1 + math.exp(-sure)), told))
    for path in arguments[:at]:
        answerable = [one for one in scored if one[0]["answerable"] and one[0]["set"] == path]
        others = [one for one in scored if not one[0]["answerable"] and one[0]["set"] == path]
        for threshold in np.arange(0.3, 0.66, 0.05):
            right = sum(right and p >= threshold for _, right, p, _ in answerable)
            wrong = sum(not right and p >= threshold for _, right, p, _ in answerable)
            refused = sum(p < threshold for _, _, p, _ in others)
            print(f"{path} from {threshold:.2f}: right {right}, wrong {wrong} of {len(answerable)}; "
                  f"refused {refused} of {len(others)}")
    weights = fit_ranking(questions)
    confidence = fit_logistic(confidence_rows(questions, weights))
    whole = np.zeros(len(NAMES) + 2)
    whole[[NAMES.index(name) for name in CONFIDENCE]] = confidence[:len(CONFIDENCE)]
    whole[-2:] = confidence[-2:]
    print("RANKING", ", ".join(f"{weight:.3f}" for weight in weights))
    print("CONFIDENCE", ", ".join(f"{weight:.3f}" for weight in whole))
    if "-v" in sys.argv:
        for question, right, p, told in sorted(scored, key=lambda one: one[2]):
            kind = "R" if right else ("-" if question["answerable"] else "U")
            print(f"{kind} {p:.2f} {question['id']} {question['ask'][:60]} => {told}")


if __name__ == "__main__":
    main()
