"""Makes questions and documents for fitting out of the written questions in `written/`.

    python3 training/answers/written.py OUT_DIR

Writes OUT_DIR/N/questions.jsonl and OUT_DIR/N/documents for groups of `GROUP_SIZE` documents, because the questions seldom name their document.
"""

import glob
import json
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GROUP_SIZE = 16


def main():
    out = sys.argv[1]
    paths = sorted(glob.glob(os.path.join(HERE, "written", "*", "*.jsonl")))
    groups = math.ceil(len(paths) / GROUP_SIZE)
    for group in range(groups):
        folder = os.path.join(out, str(group))
        os.makedirs(os.path.join(folder, "documents"), exist_ok=True)
        with open(os.path.join(folder, "questions.jsonl"), "w", encoding="utf-8") as file:
            for number, path in list(enumerate(paths))[group::groups]:
                lines = [json.loads(line) for line in open(path, encoding="utf-8") if line.strip()]
                document = lines[0]["document"]
                name = f"{number:03}-{os.path.basename(os.path.dirname(path))}.md"
                text = document["text"]
                if not text.lstrip().startswith("# "):
                    text = f"# {document['title']}\n\n{text}"
                with open(os.path.join(folder, "documents", name), "w", encoding="utf-8") as written:
                    written.write(text)
                for at, line in enumerate(lines[1:]):
                    answers = line["answers"]
                    must = [[answer] for answer in answers] if line.get("all") else [answers]
                    question = {"id": f"{number:03}-{at:02}", "ask": line["q"], "language": "ko" if "/ko/" in path else "en",
                                "style": line.get("style", "plain"), "kind": line.get("kind", "text") if answers else "none",
                                "answer_in": [name] if answers else [], "answerable": bool(answers)}
                    if answers:
                        question.update(must=must, must_not=[])
                    file.write(json.dumps(question, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
