"""From text to tokens and sentences, and from files to texts, one at a time."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tallies.data.files import open_bytes, read_records, reading
from tallies.errors import DataError, nearest

WORD = re.compile(r"[^\W\d_](?:[\w'’-]*\w)")  # two characters or more, the first a letter; inner apostrophes and hyphens stay
PART = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")  # every run of letters and digits
SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[^\W\d_a-z])|\n\s*\n")  # an end, a space, and no small letter after it


class Document(NamedTuple):
    """One text as it comes in."""

    id: str
    text: str
    authors: tuple[str, ...]


def tokenize(text: str, parts: bool = False) -> list[str]:
    """Words of a text in small letters; with `parts` compounds in their parts, and numbers and single letters too.

    >>> tokenize("The state-of-the-art isn't 42, it's x2!")
    ['the', 'state-of-the-art', "isn't", "it's", 'x2']
    >>> tokenize("P-bodies aren't 42", parts=True)
    ['p', 'bodies', "aren't", '42']
    """
    return PART.findall(text.lower()) if parts else WORD.findall(text.lower().replace("’", "'"))


def split_sentences(text: str) -> list[str]:
    """Sentences of a text, by punctuation followed by a space and a capital letter, or by an empty line.

    >>> split_sentences("It works. Does it? Yes, e.g. here.")
    ['It works.', 'Does it?', 'Yes, e.g. here.']
    """
    return [part.strip() for part in SENTENCE.split(text) if part and part.strip()]


_FUNCTION_WORDS = """
a an and any are as at be been being both but by can could did do does during each either for from further had has
have having he her here his how if in into is it its itself may might more most must neither nor not of off on once
only or other our out over own per same shall she should so some such than that the their them then there these they
this those through thus to too under until up upon us very via was we were what when where whether which while who
whom whose why will with within without would you your
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())


def stop_words(which: str | Iterable[str] | None) -> frozenset[str]:
    """ "english" is scikit-learn's list; "function" a shorter one, of words that are part of no name, while the former has
    "system", "against" and "bottom"; any other collection is taken as it is."""
    if which is None:
        return frozenset()
    if which == "function":
        return FUNCTION_WORDS
    if which == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return frozenset(ENGLISH_STOP_WORDS)
    if isinstance(which, str):
        raise ValueError(f'stop_words must be "english", "function", a collection of words, or None, got {which!r}')
    return frozenset(which)


@cache
def stemmer(language: bool | str) -> Callable[[str], str] | None:
    """A Snowball stemmer with a memory, or None."""
    if not language:
        return None
    import snowballstemmer

    try:
        return cache(snowballstemmer.stemmer("english" if language is True else language).stemWord)
    except KeyError as error:
        raise ValueError(f"stem must be True or a language of snowballstemmer, got {language!r}") from error


def stem(word: str) -> str:
    """The English stem of a word.

    >>> stem("expressed"), stem("bodies")
    ('express', 'bodi')
    """
    root = stemmer("english")
    return root(word) if root else word


def read_documents(
    path: str | Path, text: str = "text", authors: str | None = "authors", id: str | None = "id"
) -> Iterator[Document]:
    """Documents of a table in a file, see `read_table`, or of a folder of .txt files, one at a time.

    `text`, `authors` and `id` name the fields; authors are a list, or a string parted by semicolons. A missing `authors` or
    `id` field is no error. In json lines and .txt files bytes that are not UTF-8 become U+FFFD: a letter is lost, not the file.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"expected texts at {str(path)!r}, but there is nothing")
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix == ".txt" or p.name.endswith(".txt.gz"))
        if not files:
            raise DataError(f"expected .txt files in the folder {str(path)!r}, but there are none")
        for file in files:
            with reading(file, "text"), _open(file) as stream:
                whole = stream.read()
            yield Document(str(file.relative_to(path)), whole, ())
        return
    for number, record in enumerate(_records(path)):
        here = f"record {number + 1} of {str(path)!r}"
        if text not in record:
            known = nearest(text, sorted(map(str, record)))
            raise DataError(f"{here} has no field {text!r}; name it with text= (--text): {known}")
        who, name = (record.get(field) if field is not None else None for field in (authors, id))
        if isinstance(who, str):
            who = who.split(";")
        elif isinstance(who, dict | bool | int | float) and who == who:
            raise DataError(f"{here} has {who!r} as {authors!r}; expected a list of names, or a text with semicolons between them")
        if isinstance(record[text], list | dict | bytes):
            raise DataError(f"{here} has a {type(record[text]).__name__} as {text!r}; expected a text")
        names = tuple(a for a in (_text(a).strip() for a in (who if isinstance(who, list | tuple) else ())) if a)
        named = name is not None and name == name
        yield Document(_text(name) if named else str(number), _text(record[text]), names)


def _text(value: Any) -> str:
    """A value as text, "" where it is missing; halves of characters, which JSON may hold, become U+FFFD as broken bytes do."""
    text = "" if value is None or value != value else str(value)
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file, whatever its format."""
    with reading(path, "texts"):
        yield from read_records(path)


def read_field(path: str | Path, name: str, option: str) -> list[Any]:
    """One field of every record, in the order of `read_documents`; None where a record lacks it."""
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{option} names a field, but {str(path)!r} is a folder of texts, which have none; give a table")
    records = list(_records(path))
    known = dict.fromkeys(str(key) for record in records for key in record)
    if name not in known:
        raise DataError(f"{option} names the field {name!r}, which {str(path)!r} does not have; {nearest(name, known)}")
    values = [record.get(name) for record in records]
    return [(v[0] if v else None) if isinstance(v, list) else v for v in values]


def check_fields(path: str | Path, options: Mapping[str, Any]) -> None:
    """Refuse a name that was asked for and is in no record; the usual names, `authors` and `id`, may be absent."""
    path = Path(path)
    for key in ("authors", "id"):
        name = options.get(key)
        if name is not None and name != key and path.is_file():
            read_field(path, name, f"--{key}")


def _open(path: Path) -> Any:
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", errors="replace", newline="")
