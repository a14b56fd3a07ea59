"""Names in any script under an ASCII locale: no command fails, files are UTF-8, and what goes to a pipe is, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}


# several commands in one process, which takes seconds to begin, in the state to which `main` takes one (the fit goes all that way);
# each has streams as at the start of a process
CODE = """
import sys
from tallies.__main__ import main
words = sys.argv[1:]
while words:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="ascii", errors="strict")
    sys.argv[1:], words = words[: words.index(";")], words[words.index(";") + 1 :]
    main()
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\\0")
"""


def call(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], env={**os.environ, **ASCII}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    done.stderr.decode()
    return done.stdout.decode()


def each(*commands: str) -> list[str]:
    """What each command says."""
    said = call("-X", "utf8", "-c", CODE, *(word for command in commands for word in (*command.split(), ";"))).split("\0")
    assert len(said) == len(commands) + 1
    return said[:-1]


def test_an_ascii_locale(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["café", "naïve", "дом", "=x"]
    frame = pd.DataFrame({"größe": [float(i % 4) + i / 50 for i in range(40)], "тип": [names[i % 4] for i in range(40)]})
    frame.to_csv("blüten.csv", index=False)
    call("-m", "tallies", "fit", "gda", "blüten.csv", "--target", "тип", "-o", "RÜN")
    info, about, _, predicted, as_json, *_ = each(
        "info RÜN",
        "info RÜN --json",
        "report RÜN blüten.csv",
        "predict RÜN blüten.csv",
        "predict RÜN blüten.csv --json",
        "predict RÜN blüten.csv --out вывод.csv",
        "predict RÜN blüten.csv --out как_есть.csv --no-escape",
        "score RÜN blüten.csv",
        "sample RÜN -n 5 --seed 0",
    )
    assert "größe" in Path("RÜN/run.toml").read_text("utf-8") + info
    assert json.loads(about)["options"]["target"] == "тип"
    assert "дом" in Path("RÜN/report.html").read_text("utf-8")
    assert "p(дом)" in predicted.splitlines()[0]
    assert json.loads(as_json)[0]["prediction"] == "café"
    assert set(pd.read_csv("вывод.csv", encoding="utf-8")["prediction"]) == {*names[:3], "'=x"}
    assert set(pd.read_csv("как_есть.csv", encoding="utf-8")["prediction"]) == set(names)
