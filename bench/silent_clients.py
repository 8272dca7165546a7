#!/usr/bin/env python3
"""Opens clients that never read, route by route, and prints the memory of the server.

    bench/silent_clients.py target/release/doran [CLIENTS]

Starts `doran serve` in a temporary directory, adds a long document and a long conversation, and asks each route with
bodies of any length from 200 sockets that read nothing. Ends in about a minute. Fails if the server dies, if its memory
grows by more than `max_body_memory_mib`, or if another tenant is not answered meanwhile.
"""
import json, os, re, socket, subprocess, sys, tempfile, time, urllib.parse, urllib.request

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "target/release/doran"
CLIENTS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
BUDGET_MIB = 128
SECONDS_PER_ROUTE = 5


def rss_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) // 1024


def main():
    home = tempfile.mkdtemp(prefix="doran-silent-")
    env = {"HOME": home, "PATH": os.environ["PATH"], "DORAN_MAX_BODY_MEMORY_MIB": str(BUDGET_MIB)}
    run = lambda *args: subprocess.run([PROGRAM, *args], env=env, cwd=home, check=True, capture_output=True, text=True)
    keys = {tenant: run("keys", "new", tenant, "--tenant", tenant).stdout.strip() for tenant in ("a", "b")}
    server = subprocess.Popen([PROGRAM, "serve", "--port", "0"], env=env, cwd=home, stderr=subprocess.PIPE, text=True)
    try:
        address = None
        while address is None:
            found = re.search(r"http://([0-9.]+):(\d+)", server.stderr.readline())
            address = (found.group(1), int(found.group(2))) if found else None
        check(server, address, keys)
    finally:
        server.kill()
        server.wait()


def request(address, key, method, path, body=None, kind="application/json"):
    headers = {"Authorization": f"Bearer {key}"} | ({"Content-Type": kind} if body is not None else {})
    asked = urllib.request.Request(f"http://{address[0]}:{address[1]}{path}", body, headers, method=method)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def check(server, address, keys):
    text = ("연차휴가는 만 일 년 뒤에 열다섯 날입니다. " * 40 + "\n\n") * 9000
    document = request(address, keys["a"], "POST", "/api/documents?name=long.txt", text.encode(), "text/plain")
    place = "/api/documents/" + urllib.parse.quote(document["id"], safe="")
    deadline = time.time() + 120
    while request(address, keys["a"], "GET", place)["status"] != "ready":
        assert time.time() < deadline, "the document is not read"
        time.sleep(0.5)
    message = json.dumps({"agent": "react", "message": "가" * 150_000}).encode()
    for _ in range(4):
        request(address, keys["a"], "POST", "/api/threads/t/runs?wait=true", message)
    runs = request(address, keys["a"], "GET", "/api/threads/t/runs")["runs"]
    routes = [f"{place}/text", "/api/threads/t/messages", "/api/threads/t/state", "/api/threads/t/history",
              f"/api/threads/t/runs/{runs[0]['id']}/events", "/api/documents", "/api/threads?q=%EC%97%B0%EC%B0%A8"]
    before = rss_mib(server.pid)
    print(f"{CLIENTS} clients per route, {BUDGET_MIB} MiB for bodies, {before} MiB at the start")
    for route in routes:
        sockets = []
        for _ in range(CLIENTS):
            silent = socket.socket()
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.connect(address)
            silent.sendall(f"GET {route} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {keys['a']}\r\n\r\n".encode())
            sockets.append(silent)
        most, end = 0, time.time() + SECONDS_PER_ROUTE
        while time.time() < end:
            most = max(most, rss_mib(server.pid))
            time.sleep(0.1)
        request(address, keys["b"], "GET", "/api/agents")
        for silent in sockets:
            silent.close()
        print(f"{most:6} MiB  {route}", flush=True)
        assert server.poll() is None, "the server died"
        # Answers are made a few at a time, and take a multiple of their size meanwhile.
        assert most < before + BUDGET_MIB + 1024, f"{route} took {most - before} MiB"


main()
