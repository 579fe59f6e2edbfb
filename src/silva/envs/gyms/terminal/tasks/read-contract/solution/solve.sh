#!/bin/bash
set -e
cd /app
python3 - <<'PYTHON'
import json
import re
import zipfile
import zlib
from pathlib import Path

papers = Path("papers")
streams = re.findall(rb"stream\n(.*?)\nendstream", (papers / "contract.pdf").read_bytes(), re.DOTALL)
contract = " ".join(re.findall(r"\((.*?)\) Tj", b" ".join(map(zlib.decompress, streams)).decode()))
with zipfile.ZipFile(papers / "annex.docx") as annex:
    cells = re.findall(r"<w:t>(.*?)</w:t>", annex.read("word/document.xml").decode())
seal = re.search(rb"Serial\0([\w-]+?)....IDAT", (papers / "seal.png").read_bytes(), re.DOTALL)
answers = {
    "buyer": re.search(r"and (Fenwick \w+)\.", contract)[1],
    "due": "2026-09-14" if "14 September 2026" in contract else "",
    "penalty_45_days": float(cells[cells.index("more than 30 days") + 1].split()[0]),
    "seal": re.search(rb"Serial\0([A-Z]+-[0-9]+)", (papers / "seal.png").read_bytes())[1].decode(),
}
Path("answers.json").write_text(json.dumps(answers))
PYTHON
cat answers.json
