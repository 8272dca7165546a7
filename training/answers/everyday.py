"""Makes questions and documents for fitting out of the development half of `evals/retrieval/everyday-korean`.

    python3 training/answers/everyday.py OUT_DIR

Writes OUT_DIR/questions.jsonl and OUT_DIR/documents. The answers are in `everyday-korean.tsv` beside this file.
"""

import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SET = os.path.join(HERE, "../../evals/retrieval/everyday-korean")


def read(name):
    return [json.loads(line) for line in open(os.path.join(SET, name), encoding="utf-8")]


def section(passage):
    heading = passage["title"].removeprefix(passage["doc"]).strip()
    rows = [f"| {line} |" if " | " in line else line for line in passage["text"].split("\n")]
    return f"## {heading}\n\n" + "\n".join(rows) + "\n"


def main():
    out = sys.argv[1]
    os.makedirs(os.path.join(out, "documents"), exist_ok=True)
    documents = {}
    for passage in read("passages.jsonl"):
        documents.setdefault(passage["id"].split("-")[0], []).append(passage)
    for name, passages in documents.items():
        with open(os.path.join(out, "documents", name + ".md"), "w", encoding="utf-8") as file:
            file.write(f"# {passages[0]['doc']}\n\n" + "\n".join(map(section, passages)))
    rows = [line.rstrip("\n").split("\t") for line in open(os.path.join(HERE, "everyday-korean.tsv"), encoding="utf-8")
            if not line.startswith("#")]
    answers = {name: re.split(r"(?<! )\|(?! )", parts) for name, parts in rows}
    with open(os.path.join(out, "questions.jsonl"), "w", encoding="utf-8") as file:
        for question in read("dev.jsonl"):
            line = {"id": question["id"], "ask": question["text"], "language": "ko", "style": question["type"],
                    "kind": "list" if len(answers[question["id"]]) > 1 else "number",
                    "answer_in": [name.split("-")[0] + ".md" for name in question["relevant"]],
                    "must": [[part] for part in answers[question["id"]]], "must_not": [], "answerable": True}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
