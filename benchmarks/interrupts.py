"""Ctrl-C at random moments: how soon commands answer, how soon they end, and with what. `python benchmarks/interrupts.py`.

Every command runs on data that make its phases long, in a pseudo-terminal of its own, and is sent SIGINT once, at a moment drawn by
lot. A line a command and phase, which is what the terminal said at that moment: how long until words came, how long until the process
was gone, how much work it did in that time, and what it left. Moments are in seconds of the command's own work, so that they are the
same on a busy machine. A command that has to be killed after `--patience` seconds is counted as stuck, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from running import Terminal

CODE = "from tallies.__main__ import main; main()"
ANSWERS = ("Stopp", "Interrupted", "KeyboardInterrupt")
BOOTSTRAP = """
import pandas as pd, tallies
rows = pd.read_csv("few_codes.csv")
X, y = rows.drop(columns="kind"), rows["kind"]
model = tallies.FEM(degree=2, ridge=1.0).fit(X, y)
if model.stopped_ != "interrupted":  # a fit that is stopped leaves a model, and the next line follows
    model.standard_errors(X, y, n_boot=200)
"""
SANDWICH = """
import tallies
model = tallies.PLN(max_iter=10).fit("counts.csv", covariates="groups.csv")
if model.stopped_ != "interrupted":
    model.coefficient_table()
"""


class Case(NamedTuple):
    """A command that takes long."""

    name: str
    words: str  # on the line
    most: float = 12.0  # seconds of work after which it is stopped at the latest
    before: str = ""  # a command that has to go before, once
    code: str = CODE  # what is run


CASES = [
    Case("describe 60 x 20,000", "describe wide.csv", 8),
    Case("GDA 60 x 20,000", "fit gda wide.csv -t kind -o RUN", 40),
    Case("GDA 60 x 20,000 with gaps", "fit gda gaps.csv -t kind -o RUN", 40),
    Case("NaiveBayes 400,000 x 20", "fit naive-bayes rows.csv -t kind -o RUN --cv 5"),
    Case("NaiveBayes, predict", "predict NB rows.csv -o p.csv", 8, "fit naive-bayes few.csv -t kind -o NB"),
    Case("NaiveBayes, score", "score NB rows.csv", 8, "fit naive-bayes few.csv -t kind -o NB"),
    Case("NaiveBayes, report", "report NB rows.csv --force", 10, "fit naive-bayes few.csv -t kind -o NB"),
    Case("LDA, 6 M tokens", "fit lda texts.jsonl -o RUN -k 50", 30),
    Case("LDA, predict", "predict TOPICS texts.jsonl -o p.csv", 15, "fit lda some.jsonl -o TOPICS -k 20 --sweeps 30"),
    Case("LDA, score", "score TOPICS texts.jsonl", 15, "fit lda some.jsonl -o TOPICS -k 20 --sweeps 30"),
    Case("LDA, report", "report TOPICS texts.jsonl --force", 15, "fit lda some.jsonl -o TOPICS -k 20 --sweeps 30"),
    Case("PLN 3,000 x 300", "fit pln counts.csv -o RUN", 15),
    Case("PLN 3,500 x 4,000", "fit pln wide_counts.csv -o RUN", 60),
    Case("PLN rank 5", "fit pln counts.csv -o RUN --rank 5", 15),
    Case("PLN by importance", "fit pln counts.csv -o RUN --rank 3 --method importance", 15),
    Case("PLN, zero inflation", "fit pln counts.csv -o RUN --zero-inflation column", 15),
    Case("PLN, score", "score COUNTS counts.csv", 10, "fit pln few_counts.csv -o COUNTS --sweeps 20"),
    Case("PLN, report", "report COUNTS --force", 10, "fit pln few_counts.csv -o COUNTS --sweeps 20"),
    Case("PLN, sandwich errors in Python", "", 25, code=SANDWICH),
    Case(
        "PLN with covariates, report",
        "report EFFECTS --force",
        25,
        "fit pln counts.csv --covariates groups.csv -o EFFECTS --sweeps 10",
    ),
    Case("PLNNetwork 3,000 x 300", "fit pln-network counts.csv -o RUN", 20),
    Case("PLNMixture 3,000 x 300", "fit pln-mixture counts.csv -o RUN", 20),
    Case("PLNDiscriminant 3,000 x 300", "fit pln-discriminant counts.csv -t kind -o RUN --covariates groups.csv", 15),
    Case("FEM 30,000 x 30, degree 2", "fit fem codes.csv -t kind -o RUN --degree 2", 20),
    Case("FEM by its kernel", "fit fem few_codes.csv -t kind -o RUN --degree 3 --solver kernel", 15),
    Case("FEM, bootstrap errors in Python", "", 15, code=BOOTSTRAP),
    Case("FEM, report", "report CODES codes.csv --force", 10, "fit fem few_codes.csv -t kind -o CODES"),
    Case("FEMNetwork 30,000 x 30", "fit fem-network codes.csv -o RUN", 20),
    Case("AuthorConcept, 45,000 concepts", "fit author-concept sentences.jsonl --ontology go.obo -o RUN", 40),
    Case(
        "AuthorConcept, predict",
        "predict WHO sentences.jsonl -o p.csv",
        20,
        "fit author-concept some_sentences.jsonl --ontology go.obo -o WHO --sweeps 2",
    ),
    Case(
        "AuthorConcept, report",
        "report WHO sentences.jsonl --force",
        30,
        "fit author-concept some_sentences.jsonl --ontology go.obo -o WHO --sweeps 2",
    ),
]


def texts(rng: np.random.Generator, n: int, length: int, words: int) -> list[str]:
    """Documents of words with the frequencies of a language."""
    return [" ".join(f"w{v}x" for v in row) for row in rng.zipf(1.2, (n, length)) % words]


def write_jsonl(path: str, found: list[str]) -> None:
    pd.DataFrame({"id": [f"d{i}" for i in range(len(found))], "text": found}).to_json(path, orient="records", lines=True)


def write_numbers(rng: np.random.Generator) -> None:
    X = rng.normal(size=(60, 20_000)).round(3)
    kind = [f"k{i % 3}" for i in range(60)]
    pd.DataFrame(X, columns=[f"x{j}" for j in range(20_000)]).assign(kind=kind).to_csv("wide.csv", index=False)
    X[rng.random(X.shape) < 0.02] = np.nan
    pd.DataFrame(X, columns=[f"x{j}" for j in range(20_000)]).assign(kind=kind).to_csv("gaps.csv", index=False)
    Z = pd.DataFrame(rng.normal(size=(400_000, 20)).round(4), columns=[f"x{j}" for j in range(20)])
    Z = Z.assign(kind=np.where(Z.x0 > 0, "p", "q"))
    Z.to_csv("rows.csv", index=False)
    Z[:2000].to_csv("few.csv", index=False)


def write_texts(rng: np.random.Generator) -> None:
    found = texts(rng, 60_000, 100, 20_000)
    write_jsonl("texts.jsonl", found)
    write_jsonl("some.jsonl", found[:2000])


def write_counts(rng: np.random.Generator) -> None:
    Y = rng.poisson(np.exp(rng.normal(0.5, 1, (3000, 5)) @ rng.normal(0, 0.4, (5, 300)) + rng.normal(0, 0.5, (3000, 300))))
    frame = pd.DataFrame(Y, columns=[f"s{j}" for j in range(300)], index=[f"r{i}" for i in range(3000)])
    frame.to_csv("counts.csv", index_label="sample")
    frame[:300].to_csv("few_counts.csv", index_label="sample")
    pd.DataFrame({"kind": [f"k{i % 3}" for i in range(3000)]}, index=frame.index).to_csv("groups.csv", index_label="sample")


def write_wide_counts(rng: np.random.Generator) -> None:
    wide = rng.poisson(np.exp(rng.normal(0, 0.7, (3500, 5)) @ rng.normal(0, 0.4, (5, 4000)) + rng.normal(0, 0.5, (3500, 4000))))
    pd.DataFrame(wide, columns=[f"s{j}" for j in range(4000)]).to_csv("wide_counts.csv", index_label="sample")


def write_codes(rng: np.random.Generator) -> None:
    C = rng.integers(0, 4, (30_000, 30))
    frame = pd.DataFrame(np.array(list("abcd"))[C], columns=[f"v{j}" for j in range(30)])
    frame["kind"] = np.where((C[:, 0] == C[:, 1]) ^ (rng.random(30_000) < 0.1), "same", "other")
    frame.to_csv("codes.csv", index=False)
    frame[:3000].to_csv("few_codes.csv", index=False)


def write_concepts(rng: np.random.Generator) -> None:
    """An ontology of the size of the Gene Ontology."""
    names, synonyms, definitions = texts(rng, 45_000, 4, 12_000), texts(rng, 90_000, 4, 12_000), texts(rng, 45_000, 16, 12_000)
    with open("go.obo", "w") as file:
        for g in range(45_000):
            file.write(f'[Term]\nid: T:{g}\nname: {names[g]}\ndef: "{definitions[g]}" []\n')
            file.writelines(f'synonym: "{s}" EXACT []\n' for s in synonyms[2 * g : 2 * g + 2])
            file.writelines(f"is_a: T:{p}\n" for p in {g // 3, g // 2} if p < g)
            file.write("\n")
    found = [". ".join(texts(rng, 5, 12, 12_000)) + "." for _ in range(4000)]
    frame = pd.DataFrame({"id": [f"d{i}" for i in range(4000)], "text": found, "authors": [f"a{i % 200}" for i in range(4000)]})
    frame.to_json("sentences.jsonl", orient="records", lines=True)
    frame[:50].to_json("some_sentences.jsonl", orient="records", lines=True)


WRITERS: dict[str, Callable[[np.random.Generator], None]] = {  # by a file that each writes
    "wide.csv": write_numbers,
    "rows.csv": write_numbers,
    "few.csv": write_numbers,
    "gaps.csv": write_numbers,
    "texts.jsonl": write_texts,
    "counts.csv": write_counts,
    "few_counts.csv": write_counts,
    "wide_counts.csv": write_wide_counts,
    "codes.csv": write_codes,
    "few_codes.csv": write_codes,
    "groups.csv": write_counts,
    "sentences.jsonl": write_concepts,
}


class Press(NamedTuple):
    """What came of one Ctrl-C."""

    phase: str
    answered: float  # seconds
    ended: float
    worked: float  # seconds of the processor until then
    left: str


def phase_of(text: str) -> str:
    """What the terminal says, without how far it is."""
    line = re.split(r"[\r\n]", re.sub(r"\x1b\[\w", "", text).rstrip())[-1].strip()
    return re.sub(r"( \.\.\.|:\s+\d|: \d|\d+%).*", "", line)[:60] or "(nothing)"


def read_for(terminal: Terminal, seconds: float, work: float = float("inf")) -> bool:
    """Listen for so long, or until it has done so many seconds of work; whether the process still runs."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and terminal.child.poll() is None and worked(terminal) < work:
        if select.select([terminal.master], [], [], min(left, 0.05))[0]:
            try:
                terminal.text += os.read(terminal.master, 65536).decode(errors="replace")
            except OSError:
                break
    return terminal.child.poll() is None


def worked(terminal: Terminal) -> float:
    """Seconds of the processor that a process has used, whatever else the machine does."""
    try:
        return sum(psutil.Process(terminal.child.pid).cpu_times()[:2])
    except psutil.Error:
        return 0.0


def press(case: Case, at: float, patience: float) -> Press | None:
    """Start the command and stop it after so many seconds of its work; None where it had ended by then."""
    os.system("rm -rf RUN RUN.unfinished .RUN* p.csv")
    terminal = Terminal(case.code, *case.words.split())
    if not read_for(terminal, 600.0, at):
        terminal.end(5)
        return None
    told = len(terminal.text)
    phase = phase_of(terminal.text)
    terminal.child.send_signal(signal.SIGINT)
    begun, answered, before = time.monotonic(), float("nan"), worked(terminal)
    work = 0.0
    while read_for(terminal, 0.02):
        work = max(work, worked(terminal) - before)
        passed = time.monotonic() - begun
        if np.isnan(answered) and any(word in terminal.text[told:] for word in ANSWERS):
            answered = passed
        if passed > patience:
            terminal.child.kill()
            terminal.end(5)
            return Press(phase, answered, passed, work, "STUCK")
    ended = time.monotonic() - begun
    code = terminal.end(5)
    answered = ended if np.isnan(answered) else answered
    left = (
        "a model" if Path("RUN/model.tallies").exists() else "a state" if Path("RUN.unfinished/checkpoint").exists() else "nothing"
    )
    rest = [name for name in os.listdir() if name.startswith(".") or name.endswith(".part")]
    wrong = f" CODE {code}" * (code not in (130, 0, -signal.SIGINT)) + f" LEFT {rest}" * bool(rest)
    if left == "nothing" and Path("RUN.unfinished").exists():
        wrong += " LEFT RUN.unfinished"
    return Press(phase, answered, ended, work, left + wrong)


WORDS = "import os, time; from tallies.__main__ import main; open('begun', 'w').write(str(time.monotonic())); main()"


def first_words(case: Case) -> tuple[float, float, str]:
    """Seconds until the terminal says anything: from the start of the process, and from when the command was imported; and what."""
    os.system("rm -rf RUN RUN.unfinished .RUN* p.csv begun")
    begun = time.monotonic()
    terminal = Terminal(WORDS, *case.words.split())
    while not terminal.text and read_for(terminal, 0.01):
        pass
    said = time.monotonic()
    terminal.child.kill()
    terminal.end(5)
    return said - begun, said - float(Path("begun").read_text()), phase_of(terminal.text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", default="", help="part of the names of those to try")
    parser.add_argument("--presses", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=45.0)
    parser.add_argument("--words", action="store_true", help="how soon a terminal is told anything, instead")
    parser.add_argument("--folder", help="where to keep the data, to try again")
    given = parser.parse_args()
    bad = 0
    if given.words:
        print("| command | from its start s | from its import s | first words |\n|---|---|---|---|")
    else:
        print("| command | phase | presses | answered s | ended s | its work s | left |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(given.folder or temporary)
        for case in [case for case in CASES if given.cases in case.name and (case.code == CODE or not given.words)]:
            rng = np.random.default_rng([given.seed, CASES.index(case)])
            for file in re.findall(r"\w+\.(?:csv|jsonl)", f"{case.words} {case.before} {case.code}"):
                if not Path(file).exists() and file in WRITERS:
                    WRITERS[file](np.random.default_rng(0))
            if case.before and not Path(case.before.split(" -o ")[1].split()[0]).exists():
                terminal = Terminal(CODE, *case.before.split())
                if terminal.end(300):
                    sys.exit(f"{case.before}: {terminal.text}")
            if given.words:
                started, imported, told = min(first_words(case) for _ in range(given.presses))
                print(f"| {case.name} | {started:.2f} | {imported:.2f} | {told} |", flush=True)
                continue
            found: dict[str, list[Press]] = defaultdict(list)
            most = case.most
            for at in rng.random(given.presses):
                while (done := press(case, 0.3 + at * most, given.patience)) is None:
                    most *= 0.7
                found[done.phase].append(done)
            for phase, all_of in found.items():
                answered, ended, work = (max(each) for each in list(zip(*all_of, strict=True))[1:4])
                left = ", ".join(sorted({one.left for one in all_of}))
                bad += "STUCK" in left or "LEFT" in left or "CODE" in left
                print(f"| {case.name} | {phase} | {len(all_of)} | {answered:.1f} | {ended:.1f} | {work:.1f} | {left} |", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
