"""Reads what `doran eval agent --json` wrote about questions to a real model.

    python answers.py missing QUESTIONS.toml ANSWERS.jsonl   the ids that are not answered; all of them, anew, if none is missing
    python answers.py show ANSWERS.jsonl ID                  what became of one question, and what the model said
    python answers.py count ANSWERS.jsonl                    how many passed
"""

import json
import pathlib
import re
import sys


def answers(path):
    lines = (json.loads(line) for line in path.read_text().splitlines())
    return {line["id"]: line for line in lines if "observed" in line}


def missing(questions, path):
    ids = re.findall(r'^id = "([^"]+)"$', pathlib.Path(questions).read_text(), re.MULTILINE)
    path.touch()
    left = [name for name in ids if name not in answers(path)]
    if not left:
        path.write_text("")
    print("\n".join(left or ids))


def show(path, name):
    answer = answers(path)[name]
    observed = answer["observed"]
    tools = "+".join(observed["tools"]) or "-"
    print("ok  " if not answer["failures"] else "FAIL", name, observed["route"], tools, f"{observed['ms'] / 1000:.0f} s")
    for failure in answer["failures"]:
        print(f"       {failure['what']}: expected {failure['expected']}")
    if answer["failures"]:
        print("       it said:", " ".join(observed["response"].split()))
    sys.stdout.flush()


def count(path):
    found = answers(path).values()
    print(sum(not answer["failures"] for answer in found), "of", len(found), "passed")


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "missing":
        missing(rest[0], pathlib.Path(rest[1]))
    elif what == "show":
        show(pathlib.Path(rest[0]), rest[1])
    else:
        count(pathlib.Path(rest[0]))
