"""From text to tokens and sentences, and from files to texts, one at a time."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from os.path import exists
from pathlib import Path
from typing import Any, NamedTuple

from tallies.data.files import open_bytes, read_records, reading
from tallies.errors import DataError, nearest

# signs that belong to a letter, and the scripts that are full of them
MARKS = (
    "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0971-\u0dff\u0e31-\u0e4e\u0eb1-\u0ecd\u102b-\u103e\u17b4-\u17d3"
)
# two characters or more, the first a letter; inner apostrophes and hyphens stay. One Chinese character may be a word
WORD = re.compile(rf"[^\W\d_](?:[\w{MARKS}'’-]*[\w{MARKS}])|[\u3400-\u4dbf\u4e00-\u9fff]")
# articles and the like that French, Italian and Catalan tie to the next word: "l'homme", "dell'arte"
ELIDED = re.compile(r"\b(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|un|gl|all|[dn]ell|dall|sull|quell|quest)['’](?=\w)", re.IGNORECASE)
_PICTURE = "[\u2600-\u27bf\u2b50\U0001f300-\U0001faff][\U0001f3fb-\U0001f3ff]?"  # in a tone of skin
# a word, a flag (two letters of a region), or pictures that are joined to one
WORD_OR_EMOJI = re.compile(f"{WORD.pattern}|[\U0001f1e6-\U0001f1ff]{{2}}|{_PICTURE}(?:\u200d{_PICTURE})*")
# letters of languages that put no spaces between words, by a length that few of their words have
UNSPACED = {
    6: ("Chinese or Japanese", re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002ffff]+")),
    16: ("Thai, Lao, Burmese or Khmer", re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")),
}
PART = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")  # every run of letters and digits
SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[^\W\d_a-z])|\n\s*\n")  # an end, a space, and no small letter after it


class Document(NamedTuple):
    """One text as it comes in."""

    id: str
    text: str
    authors: tuple[str, ...]


def tokenize(text: str, parts: bool = False, emoji: bool = False) -> list[str]:
    """Words of a text in small letters; with `parts` compounds in their parts, and numbers and single letters too; with `emoji`
    these count as words.

    >>> tokenize("The state-of-the-art isn't 42, it's x2!")
    ['the', 'state-of-the-art', "isn't", "it's", 'x2']
    >>> tokenize("P-bodies aren't 42", parts=True)
    ['p', 'bodies', "aren't", '42']
    >>> tokenize("Well done 👍👍", emoji=True)
    ['well', 'done', '👍', '👍']
    """
    if parts:
        return PART.findall(text.lower())
    text = text.lower().replace("’", "'")
    return WORD_OR_EMOJI.findall(text.replace("\ufe0f", "")) if emoji else WORD.findall(text)


def refuse_unspaced(texts: Sequence[str]) -> None:
    """Refuse texts of languages without spaces between words, unless someone has put them in.

    >>> refuse_unspaced(["我 喜欢 吃 苹果", "plain words"])
    >>> refuse_unspaced(["我喜欢吃苹果和梨"])
    Traceback (most recent call last):
    ...
    tallies.errors.DataError: the texts are Chinese or Japanese without spaces, so their words are not known; put spaces between \
the words first, as a segmenter such as jieba, MeCab or PyThaiNLP does
    """
    for longest, (languages, letters) in UNSPACED.items():
        runs = [len(run) for text in texts for run in letters.findall(text)]
        if 2 * sum(n for n in runs if n >= longest) > sum(runs) > 0.2 * sum(map(len, texts)):
            raise DataError(
                f"the texts are {languages} without spaces, so their words are not known; put spaces between the words first, "
                "as a segmenter such as jieba, MeCab or PyThaiNLP does"
            )


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


_CODES = """
english en arabic ar armenian hy basque eu bulgarian bg catalan ca croatian hr czech cs danish da dutch nl esperanto eo estonian et
finnish fi french fr german de greek el hebrew he hindi hi hungarian hu indonesian id irish ga italian it latvian lv lithuanian lt
norwegian no persian fa polish pl portuguese pt romanian ro russian ru sesotho st slovak sk slovenian sl spanish es swedish sv
turkish tr ukrainian uk
"""
LANGUAGES = dict(zip(_CODES.split()[::2], _CODES.split()[1::2], strict=True))  # that have a list of stop words


def stop_words(which: str | Iterable[str] | None) -> frozenset[str]:
    """The words of a list: "function" is a short one, of English words that are part of no name, while that of "english" has
    "system", "against" and "bottom"; any other language by its name; any other collection is taken as it is.

    >>> "und" in stop_words("german"), stop_words(["x", "y"]) == {"x", "y"}
    (True, True)
    """
    return _stop_list(which) if isinstance(which, str) else frozenset(which or ())


@cache
def _stop_list(which: str) -> frozenset[str]:
    if which == "function":
        return FUNCTION_WORDS
    if which == "english":  # that of stopwordsiso has four times as many, with "computer" and "group"
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return frozenset(ENGLISH_STOP_WORDS)
    if which not in LANGUAGES:
        told = 'stop_words must be "auto", "function", a language that has a list, a collection of words, or None'
        raise ValueError(f"{told}; got {which!r}; {nearest(which, LANGUAGES)}")
    import stopwordsiso

    return frozenset(stopwordsiso.stopwords(LANGUAGES[which]))


def language_of(texts: Iterable[str]) -> str | None:
    """The language whose stop words make up most of some texts; English unless another one is seen clearly; None without any.

    >>> language_of(["Der Hund und die Katze sind nicht im Haus"]), language_of(["The dog and the cat"]), language_of(["iron zinc"])
    ('german', 'english', None)
    """
    n = Counter(word for text in texts for word in tokenize(text))
    seen = {language: [n[word] for word in n.keys() & stop_words(language)] for language in LANGUAGES}
    best = max(seen, key=lambda language: sum(seen[language]))
    clear = len(seen[best]) >= 3 and sum(seen[best]) >= 0.1 * n.total()
    return best if clear else "english" if seen["english"] else None


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


class NoTexts(DataError):
    """A table of documents has no column of texts."""


def names_file(texts: Any) -> bool:
    """Whether this is the path of texts; one string that names no file is refused.

    >>> names_file(["a text"]), names_file("a text")
    Traceback (most recent call last):
    ...
    tallies.errors.DataError: expected texts, got one string, which names no file: 'a text'; check the path, or put it into a list
    """
    if isinstance(texts, str) and not exists(texts):  # that of pathlib fails where the string is long
        raise DataError(
            f"expected texts, got one string, which names no file: {texts[:60]!r}; check the path, or put it into a list"
        )
    return isinstance(texts, str | Path)


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
        files = sorted(p for p in path.rglob("*") if p.name.lower().endswith((".txt", ".txt.gz")))
        if not files:
            raise DataError(f"expected .txt files in the folder {str(path)!r}, but there are none")
        for file in files:
            with reading(file, "text"), io.TextIOWrapper(open_bytes(file), "utf-8-sig", "replace", newline="") as stream:
                whole = stream.read()
            yield Document(str(file.relative_to(path)), whole, ())
        return
    for number, record in enumerate(_records(path)):
        here = f"record {number + 1} of {str(path)!r}"
        if text not in record:
            if number:
                raise NoTexts(
                    f"{here} has no field {text!r}, which those before it have; give it one, null or empty, or leave it out"
                )
            known = nearest(text, sorted(map(str, record)))
            raise NoTexts(f"{here} has no field {text!r}; name it with text= of Corpus.read (--text): {known}")
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
    for key in ("authors", "id"):
        if options.get(key) not in (None, key) and Path(path).is_file():
            read_field(path, options[key], f"--{key}")
