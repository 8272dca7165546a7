"""Measures one peer on the files of `./x bench search` and prints one JSON object.

    search.py bm25s|whoosh|flat|hnsw FOLDER SECONDS

bm25s and Whoosh cut Korean as well as they can without a plugin: pairs of syllables, which is what Doran's first layer
does. `flat` and `hnsw` are faiss, which looks at all vectors or along a graph.
"""

import importlib.metadata
import json
import os
import sys
import tempfile
import threading
import time

WANTED = 10
# Whoosh is given up after so many seconds of writing.
PATIENCE = 240


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
    for at in range(20):
        ask(at % count)
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


def measured(figures, seconds, ask, count):
    for threads in (1, 16):
        figures[f"qps{threads}"], figures[f"p99_{threads}"] = run(threads, seconds, ask, count)
    return figures


def disk(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names) / 1e6


def lines(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read().splitlines()


def with_bm25s(folder, seconds):
    import bm25s

    passages, questions = lines(folder, "passages.txt"), lines(folder, "questions.txt")
    before, started = resident(), time.perf_counter()
    vocabulary = {}
    ids = [[vocabulary.setdefault(term, len(vocabulary)) for term in pairs(text)] for text in passages]
    index = bm25s.BM25(k1=1.0, b=0.75)
    index.index((ids, vocabulary), show_progress=False)
    del ids
    figures = {"build_s": time.perf_counter() - started, "rss_mb": resident() - before}
    with tempfile.TemporaryDirectory() as place:
        index.save(place)
        figures["disk_mb"] = disk(place)

    def ask(at):
        asked = [term for term in pairs(questions[at]) if term in vocabulary]
        index.retrieve([asked], k=WANTED, show_progress=False, n_threads=0)

    return measured(figures, seconds, ask, len(questions))


def with_whoosh(folder, seconds):
    from whoosh import fields, index, qparser
    from whoosh.analysis import SpaceSeparatedTokenizer

    passages, questions = lines(folder, "passages.txt"), lines(folder, "questions.txt")
    with tempfile.TemporaryDirectory() as place:
        before, started = resident(), time.perf_counter()
        schema = fields.Schema(text=fields.TEXT(analyzer=SpaceSeparatedTokenizer(), phrase=False))
        made = index.create_in(place, schema)
        writer = made.writer(limitmb=512)
        for text in passages:
            writer.add_document(text=" ".join(pairs(text)))
            if time.perf_counter() - started > PATIENCE:
                sys.exit(f"whoosh is given up: it had not taken {len(passages)} passages in after {PATIENCE} s")
        writer.commit()
        figures = {"build_s": time.perf_counter() - started, "rss_mb": resident() - before, "disk_mb": disk(place)}
        parser = qparser.QueryParser("text", schema, plugins=[], group=qparser.OrGroup)
        with made.searcher() as searcher:

            def ask(at):
                searcher.search(parser.parse(" ".join(pairs(questions[at]))), limit=WANTED)

            return measured(figures, seconds, ask, len(questions))


def with_faiss(folder, seconds, graph):
    import faiss
    import numpy

    dimension = int(lines(folder, "dimension.txt")[0])
    numbers = lambda name: numpy.fromfile(os.path.join(folder, name), dtype="<f4").reshape(-1, dimension)
    vectors, asked = numbers("vectors.f32"), numbers("asked.f32")
    before, started = resident(), time.perf_counter()
    index = faiss.IndexFlatIP(dimension)
    if graph:
        # As many neighbours as Doran's graph, and as many in sight while it is made.
        index = faiss.IndexHNSWFlat(dimension, 16, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 100
    index.add(vectors)
    figures = {"build_s": time.perf_counter() - started, "rss_mb": resident() - before}
    with tempfile.TemporaryDirectory() as place:
        faiss.write_index(index, os.path.join(place, "index"))
        figures["disk_mb"] = disk(place)
    # One thread a question: the questions come from several.
    faiss.omp_set_num_threads(1)
    figures["recall"] = 1.0
    if graph:
        truth = numpy.argpartition(-(asked[:100] @ vectors.T), WANTED, axis=1)[:, :WANTED]
        # The fastest setting that finds nineteen of twenty.
        for sight in (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512):
            index.hnsw.efSearch = sight
            _, found = index.search(asked[:100], WANTED)
            figures["recall"] = sum(len(set(a) & set(b)) for a, b in zip(truth, found)) / truth.size
            if figures["recall"] >= 0.95:
                break
    return measured(figures, seconds, lambda at: index.search(asked[at : at + 1], WANTED), len(asked))


def main():
    name, folder, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    package = {"bm25s": "bm25s", "whoosh": "Whoosh"}.get(name, "faiss-cpu")
    peer = {
        "bm25s": with_bm25s,
        "whoosh": with_whoosh,
        "flat": lambda *given: with_faiss(*given, False),
        "hnsw": lambda *given: with_faiss(*given, True),
    }[name]
    figures = peer(folder, seconds)
    shown = name if name in ("bm25s", "whoosh") else f"faiss {name}"
    figures["name"] = f"{shown} {importlib.metadata.version(package)}"
    print(json.dumps(figures))


main()
