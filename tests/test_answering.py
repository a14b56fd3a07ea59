"""Folders of answers: all of them, or none that could be taken for all."""

import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

import tallies
from running import begin
from tallies import disk
from tallies.answering import UNFINISHED, Part, _answer, write_parts
from tallies.errors import DataError


class Rows(NamedTuple):
    """Some rows to be answered."""

    first: int

    def frame(self, cells: str) -> pd.DataFrame:
        return pd.DataFrame({"x": range(self.first, self.first + 2)})


PIECES = [Rows(0), Rows(2), Rows(4)]


def doubled(model: Any, frame: pd.DataFrame) -> pd.DataFrame:
    return 2 * frame


def failing(error: BaseException, frame: pd.DataFrame) -> pd.DataFrame:
    if frame["x"][0]:
        raise error
    return frame


WAITS = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import tallies
from tallies.answering import UNFINISHED, write_parts
from test_answering import PIECES, doubled
def waiting(model, frame):
    if frame["x"][0] == 4:
        print(len(list((Path(sys.argv[1]) / UNFINISHED).glob("part-*"))), flush=True)
        time.sleep(60)
    return doubled(model, frame)
with tallies.backend("threads", workers=1):
    write_parts(None, PIECES, "", 6, sys.argv[1], waiting)
"""


def answers(folder: Path) -> list[int]:
    return [value for path in sorted(folder.iterdir()) for value in pd.read_parquet(path)["x"]]


@pytest.mark.parametrize("error", [DataError("no answer to this"), KeyboardInterrupt()])
@pytest.mark.parametrize("there", [False, True])
def test_of_answers_that_fail_nothing_is_left_and_the_next_try_goes_through(tmp_path, error, there):
    out = tmp_path / "answers"
    if there:
        out.mkdir()
    with pytest.raises(type(error)), tallies.backend("threads", workers=1):
        write_parts(error, PIECES, "", 6, out, failing)
    assert [path.name for path in tmp_path.rglob("*")] == ["answers"] * there
    assert answers(write_parts(None, PIECES, "", 6, out, doubled)) == [0, 2, 4, 6, 8, 10]


@pytest.mark.skipif(disk.fcntl is None, reason="files are not locked here")
def test_what_a_killed_process_has_answered_is_not_taken_for_all_and_is_made_again(tmp_path):
    out = tmp_path / "answers"
    child = begin("-c", WAITS, str(out), str(Path(__file__).parent), stdin=subprocess.PIPE)
    assert child.stdout.readline().strip() == "2"
    assert not list(out.glob("*.parquet"))
    with pytest.raises(DataError, match="is being filled with answers by another process"):
        write_parts(None, PIECES, "", 6, out, doubled)
    child.send_signal(signal.SIGKILL)
    child.wait()
    (out / UNFINISHED / "part-000000.parquet").rename(out / "part-000000.parquet")  # it may die when some have their places
    assert answers(write_parts(None, PIECES, "", 6, out, doubled)) == [0, 2, 4, 6, 8, 10]


def test_columns_of_a_table_that_are_called_as_answers_are_told_apart(tmp_path):
    """Topics went by other names, and ids ended in a traceback of pandas."""
    texts = ["oak tree", "bird of wood"] * 3
    pd.DataFrame({"text": texts, "Topic": ["a", "b"] * 3, "topic_1": 1.5}).to_parquet(tmp_path / "texts.parquet")
    lda = tallies.LDA(n_topics=2, max_iter=4, burn_in=2).fit(tallies.Corpus.from_texts(texts))
    (path,) = lda.transform(tmp_path / "texts.parquet", out=tmp_path / "topics").iterdir()
    found = pd.read_parquet(path)
    assert found.columns.tolist() == ["Topic_of_text", "topic_1_of_text", "topic", "topic_0", "topic_1"]
    assert (found["topic"] == found[["topic_0", "topic_1"]].to_numpy().argmax(axis=1)).all()
    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0] * 50, "prediction": [f"tree {i}" for i in range(200)]})
    frame.to_parquet(tmp_path / "trees.parquet")
    model = tallies.NaiveBayes().fit(frame[["size"]], ["a", "a", "b", "b"] * 50)
    (path,) = model.predict(tmp_path / "trees.parquet", out=tmp_path / "kinds").iterdir()
    found = pd.read_parquet(path)
    assert found.columns.tolist() == ["prediction_of_table", "prediction", "p(a)", "p(b)"]
    assert found["prediction_of_table"].tolist() == frame["prediction"].tolist()


def test_a_folder_of_txt_files_is_answered_into_a_folder(tmp_path):
    """They were read as tables, which have no column of texts."""
    home = tmp_path / "texts"
    home.mkdir()
    for k, text in enumerate(["oak tree and elm", "bird of the wood", "", "oak, bird"]):
        (home / f"{k}.{'TXT' if k == 1 else 'txt'}").write_text(text)
    corpus = tallies.Corpus.read(home)
    lda = tallies.LDA(n_topics=2, max_iter=4, burn_in=2).fit(corpus)
    (path,) = lda.transform(home, out=tmp_path / "topics").iterdir()
    found = pd.read_parquet(path)
    assert found["id"].tolist() == ["0.txt", "1.TXT", "2.txt", "3.txt"]
    assert found[["topic_0", "topic_1"]].to_numpy() == pytest.approx(lda.transform(home))
    whole = tallies.Corpus.prepare(home, tmp_path / "counted")
    assert tallies.LDA(n_topics=2, max_iter=4, burn_in=2).fit(whole).vocabulary_.tolist() == corpus.vocabulary.tolist()


def test_what_others_have_in_the_folder_stays(tmp_path):
    (tmp_path / "part-000000.parquet").write_text("mine")
    with pytest.raises(DataError, match="answers go to a new folder, or an empty one"):
        write_parts(None, PIECES, "", 6, tmp_path, doubled)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_answers_of_a_worker_that_does_not_see_the_folder_are_not_written_elsewhere(tmp_path):
    path = tmp_path / "elsewhere" / UNFINISHED / "part-000000.parquet"
    with pytest.raises(DataError, match=r"'.*elsewhere' is not seen where answers are made"):
        _answer(Part(PIECES[0], "", str(path)).load(), None, doubled)
    assert not any(tmp_path.iterdir())
