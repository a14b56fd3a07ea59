"""Names in any script under an ASCII locale: no command fails, files are UTF-8, and what goes to a pipe is, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}


def call(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "tallies", *words], env={**os.environ, **ASCII}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    done.stderr.decode()
    return done.stdout.decode()


def test_an_ascii_locale(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["café", "naïve", "дом", "=x"]
    frame = pd.DataFrame({"größe": [float(i % 4) + i / 50 for i in range(40)], "тип": [names[i % 4] for i in range(40)]})
    frame.to_csv("blüten.csv", index=False)
    call("fit", "gda", "blüten.csv", "--target", "тип", "-o", "RÜN")
    assert "größe" in Path("RÜN/run.toml").read_text("utf-8") + call("info", "RÜN")
    assert json.loads(call("info", "RÜN", "--json"))["options"]["target"] == "тип"
    call("report", "RÜN", "blüten.csv")
    assert "дом" in Path("RÜN/report.html").read_text("utf-8")
    assert "p(дом)" in call("predict", "RÜN", "blüten.csv").splitlines()[0]
    assert json.loads(call("predict", "RÜN", "blüten.csv", "--json"))[0]["prediction"] == "café"
    call("predict", "RÜN", "blüten.csv", "--out", "вывод.csv")
    found = pd.read_csv("вывод.csv", encoding="utf-8")["prediction"]
    assert set(found) == {*names[:3], "'=x"}
    call("predict", "RÜN", "blüten.csv", "--out", "вывод.csv", "--no-escape")
    assert set(pd.read_csv("вывод.csv", encoding="utf-8")["prediction"]) == set(names)
    call("score", "RÜN", "blüten.csv")
    call("sample", "RÜN", "-n", "5", "--seed", "0")
