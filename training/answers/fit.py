"""Fits the weights by which the built-in model ranks sentences and decides whether to quote one.

    ANSWER_FEATURES=features.jsonl cargo test -p doran-offline features_for_fitting -- --ignored
    python3 training/answers/fit.py features.jsonl

The ranking is a conditional logit over the candidates of a question. The confidence is a logistic regression over the best
candidate, once with all candidates and once without the right ones, because a question whose answer is not there must be
refused. Figures are given with a fifth of the documents left out at a
time. Plain Python, no packages.
"""

import json
import math
import random
import re
import sys

NAMES = ["own", "wide", "weight", "meaning", "kind_fits", "kind_misses", "rank", "other_model", "other_document", "absent",
         "fragment", "absent_in_passage", "first_passage"]
FOLDS = 5

# A sentence that only leads to a list is quoted with the list.
LEAD_IN = re.compile("다음(과 같|의 |\\s*각\\s*호| 순서)|[:：]$|following")
# A question that names an article is answered with the article, whatever the confidence.
NAMES_PLACE = re.compile("제\\s*\\d+\\s*[조항]|section \\d")


def fold(text):
    return " ".join(text.split()).lower()


def label(question, unit):
    """Whether a candidate holds an answer, or a part of one."""
    anywhere = question["answer_in"] == ["*"]
    if not question["answerable"] or not (anywhere or unit["document"] in question["answer_in"]):
        return 0
    text = fold(unit["text"])
    if any(fold(other) in text for other in question["must_not"]):
        return 0
    return int(any(any(fold(one) in text for one in group) for group in question["must"]))


def dot(weights, features):
    return sum(w * f for w, f in zip(weights, features))


def fit_ranking(questions, width, l2=0.1, steps=200, rate=0.5):
    weights = [0.0] * width
    data = []
    for question in questions:
        if any(question["labels"]) and not all(question["labels"]):
            data.append((question["x"], question["labels"]))
    speed = [1e-8] * width
    for _ in range(steps):
        gradient = [-l2 * w * len(data) / 10 for w in weights]
        for units, labels in data:
            scores = [dot(weights, unit) for unit in units]
            top = max(scores)
            odds = [math.exp(score - top) for score in scores]
            total = sum(odds)
            right = sum(odd for odd, lab in zip(odds, labels) if lab)
            for unit, odd, lab in zip(units, odds, labels):
                share = (odd / right if lab else 0.0) - odd / total
                if share:
                    for at in range(width):
                        gradient[at] += share * unit[at]
        for at in range(width):
            speed[at] += gradient[at] ** 2
            weights[at] += rate * gradient[at] / math.sqrt(speed[at])
    return weights


def fit_logistic(rows, width, l2=1.0, steps=300, rate=0.5):
    weights = [0.0] * (width + 1)
    speed = [1e-8] * (width + 1)
    for _ in range(steps):
        gradient = [-l2 * w for w in weights[:-1]] + [0.0]
        for features, lab, weight in rows:
            p = 1 / (1 + math.exp(-max(-30, min(30, dot(weights, features) + weights[-1]))))
            for at in range(width):
                gradient[at] += weight * (lab - p) * features[at]
            gradient[-1] += weight * (lab - p)
        for at in range(width + 1):
            speed[at] += gradient[at] ** 2
            weights[at] += rate * gradient[at] / math.sqrt(speed[at])
    return weights


def best(question, weights, without_right=False):
    order = [at for at in range(len(question["x"])) if not (without_right and question["labels"][at])]
    order.sort(key=lambda at: -dot(weights, question["x"][at]))
    return order


def confidence_features(question, weights, order):
    top = question["x"][order[0]]
    first = dot(weights, top)
    second = dot(weights, question["x"][order[1]]) if len(order) > 1 else first - 3
    # The weight of the words depends on how much is asked, and says little about whether it is answered.
    top = [0.0 if name == "weight" else value for name, value in zip(NAMES, top)]
    return top + [min(first - second, 3.0)]


def confidence_rows(questions, weights):
    rows = []
    for question in questions:
        order = best(question, weights)
        if not order or NAMES_PLACE.search(question["ask"]):
            continue
        rows.append((confidence_features(question, weights, order), question["labels"][order[0]], 1.0))
        if question["answerable"]:
            rest = best(question, weights, True)
            if rest:
                rows.append((confidence_features(question, weights, rest), 0, 0.5))
    return rows


def read(paths):
    questions = [json.loads(line) for path in paths for line in open(path)]
    documents = sorted({name for question in questions for name in question["answer_in"]})
    random.seed(1)
    random.shuffle(documents)
    for question in questions:
        units = question["units"]
        labels = [label(question, unit) for unit in units]
        for at, unit in enumerate(units):
            below = any(lab and other["lead"] == unit["text"] for other, lab in zip(units, labels))
            if below and LEAD_IN.search(unit["text"]):
                labels[at] = 1
        question["labels"] = labels
        question["x"] = [unit["features"] for unit in units]
        document = question["answer_in"][0] if question["answer_in"] else random.choice(documents)
        question["fold"] = documents.index(document) % FOLDS
    return questions


def confident(question, confidence, weights, order):
    if NAMES_PLACE.search(question["ask"]):
        return 1.0
    features = confidence_features(question, weights, order)
    return 1 / (1 + math.exp(-(dot(confidence, features) + confidence[-1])))


def main():
    questions = read([path for path in sys.argv[1:] if path != "-v"])
    width = len(NAMES)
    reach = sum(any(question["labels"]) for question in questions if question["answerable"])
    answerable = sum(question["answerable"] for question in questions)
    print(f"{answerable} answerable, the answer is among the candidates of {reach}")
    scored = []
    for fold_number in range(FOLDS):
        train = [question for question in questions if question["fold"] != fold_number]
        weights = fit_ranking(train, width)
        confidence = fit_logistic(confidence_rows(train, weights), width + 1)
        for question in (question for question in questions if question["fold"] == fold_number):
            order = best(question, weights)
            if order:
                p = confident(question, confidence, weights, order)
                scored.append((question, question["labels"][order[0]], p, question["units"][order[0]]["text"]))
            else:
                scored.append((question, 0, 0.0, ""))
    top = sum(one[1] for one in scored if one[0]["answerable"])
    print(f"documents left out: best candidate right for {top} of {answerable}")
    for threshold in [0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7]:
        right = sum(lab and p >= threshold for q, lab, p, _ in scored if q["answerable"])
        wrong = sum((not lab) and p >= threshold for q, lab, p, _ in scored if q["answerable"])
        refused = sum(p < threshold for q, _, p, _ in scored if not q["answerable"])
        print(f"  from {threshold:.2f}: right {right}, wrong {wrong} of {answerable}; "
              f"refused {refused} of {len(questions) - answerable}")
    weights = fit_ranking(questions, width)
    confidence = fit_logistic(confidence_rows(questions, weights), width + 1)
    print("ranking   ", [round(w, 3) for w in weights])
    print("confidence", [round(w, 3) for w in confidence])
    if "-v" in sys.argv:
        for question, lab, p, text in sorted(scored, key=lambda one: one[2]):
            kind = "R" if lab else ("-" if question["answerable"] else "U")
            print(f"{kind} {p:.2f} {question['id']} {question['ask'][:70]} => {text[:90]}")


if __name__ == "__main__":
    main()
