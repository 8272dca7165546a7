"""Measures bm25s, Whoosh and faiss on the files of `./x bench search` and prints one JSON object.

    search.py FOLDER SECONDS

Each peer cuts Korean as well as it can without a plugin: pairs of syllables, which is what Doran's first layer does.
A peer that is not installed is left out.
"""

import json
import os
import sys
import tempfile
import threading
import time

WANTED = 10
DIMENSION = 512


def pairs(text):
    found = []
    for word in text.split():
        found.extend(word[at : at + 2] for at in range(max(1, len(word) - 1)))
    return found


def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS:"))


def run(threads, seconds, ask, count):
    times, turn, lock = [], [0], threading.Lock()
    started = time.perf_counter()

    def work():
        own = []
        while time.perf_counter() - started < seconds:
            with lock:
                at = turn[0]
                turn[0] += 1
            begun = time.perf_counter()
            ask(at % count)
            own.append((time.perf_counter() - begun) * 1e3)
        with lock:
            times.extend(own)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    times.sort()
    return len(times) / (time.perf_counter() - started), times[(len(times) - 1) * 99 // 100]


def measured(prefix, figures, seconds, ask, count):
    for threads in (1, 16):
        qps, p99 = run(threads, seconds, ask, count)
        figures[f"{prefix}_qps{threads}"] = qps
        figures[f"{prefix}_p99_{threads}"] = p99
    return figures


def disk(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names) / 1e6


def with_bm25s(passages, questions, seconds):
    import bm25s

    before, started = resident(), time.perf_counter()
    vocabulary = {}
    ids = [[vocabulary.setdefault(term, len(vocabulary)) for term in pairs(text)] for text in passages]
    index = bm25s.BM25(k1=1.0, b=0.75)
    index.index((ids, vocabulary), show_progress=False)
    figures = {"words_build_s": time.perf_counter() - started, "words_rss_mb": resident() - before}
    with tempfile.TemporaryDirectory() as folder:
        index.save(folder)
        figures["words_disk_mb"] = disk(folder)

    def ask(at):
        asked = [term for term in pairs(questions[at]) if term in vocabulary]
        index.retrieve([asked], k=WANTED, show_progress=False, n_threads=0)

    return measured("words", figures, seconds, ask, len(questions))


def with_whoosh(passages, questions, seconds):
    from whoosh import fields, index, qparser
    from whoosh.analysis import SpaceSeparatedTokenizer

    with tempfile.TemporaryDirectory() as folder:
        before, started = resident(), time.perf_counter()
        schema = fields.Schema(text=fields.TEXT(analyzer=SpaceSeparatedTokenizer(), phrase=False))
        made = index.create_in(folder, schema)
        writer = made.writer(limitmb=256)
        for text in passages:
            writer.add_document(text=" ".join(pairs(text)))
        writer.commit()
        figures = {"words_build_s": time.perf_counter() - started, "words_rss_mb": resident() - before}
        figures["words_disk_mb"] = disk(folder)
        parser = qparser.QueryParser("text", schema, plugins=[], group=qparser.OrGroup)
        with made.searcher() as searcher:

            def ask(at):
                searcher.search(parser.parse(" ".join(pairs(questions[at]))), limit=WANTED)

            return measured("words", figures, seconds, ask, len(questions))


def with_faiss(vectors, asked, seconds):
    import faiss

    faiss.omp_set_num_threads(1)
    started = time.perf_counter()
    index = faiss.IndexFlatIP(DIMENSION)
    index.add(vectors)
    figures = {"vectors_build_s": time.perf_counter() - started, "vectors_recall": 1.0}
    return measured("vectors", figures, seconds, lambda at: index.search(asked[at : at + 1], WANTED), len(asked))


def main():
    import numpy

    folder, seconds = sys.argv[1], float(sys.argv[2])

    def lines(name):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read().splitlines()

    passages, questions = lines("passages.txt"), lines("questions.txt")
    numbers = lambda name: numpy.fromfile(os.path.join(folder, name), dtype="<f4").reshape(-1, DIMENSION)
    found = {}
    for name, peer, given in (
        ("bm25s", with_bm25s, (passages, questions)),
        ("whoosh", with_whoosh, (passages, questions)),
        ("faiss", with_faiss, (numbers("vectors.f32"), numbers("asked.f32"))),
    ):
        try:
            found[name] = peer(*given, seconds)
        except ImportError as missing:
            print(f"bench: {name} is left out: {missing}", file=sys.stderr)
    print(json.dumps(found))


main()
