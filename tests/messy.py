"""Thirty files as they come from spreadsheets, instruments and colleagues, and what each of their columns is.

Twenty are written by hand, ten by a generator of random dialects. Every file says the same kind of thing: trees with their sort
(the target), measured and described. `kinds` is what a reader should make of the columns, by the names it should give them.
"""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class Messy(NamedTuple):
    """A file, and what should come out of it."""

    name: str
    body: bytes
    target: str
    kinds: dict[str, str]  # of the columns, the target included, in their order
    rows: int
    gaps: int = 0  # in all cells
    told: tuple[str, ...] = ()  # what the note of the reader mentions


# sort, height in m, mass in g, leaves, bark, day: eighteen trees
TREES = [
    ("oak", 12.5, 1234567.5, 310, "rough", "2021-03-01"),
    ("elm", 8.25, 734100.25, 120, "smooth", "2021-03-02"),
    ("oak", 14.0, 1300400.0, 330, "rough", "2021-03-02"),
    ("elm", 7.75, 701020.5, 115, "smooth", "2021-03-03"),
    ("oak", 13.1, 1250000.75, 290, "smooth", "2021-03-05"),
    ("elm", 9.4, 750333.0, 133, "rough", "2021-03-08"),
    ("oak", 11.9, 1190210.5, 305, "rough", "2021-03-13"),
    ("elm", 8.8, 720500.0, 127, "smooth", "2021-03-21"),
    ("oak", 12.2, 1210999.25, 299, "rough", "2021-04-02"),
    ("elm", 8.1, 715250.5, 118, "smooth", "2021-04-04"),
    ("oak", 15.3, 1412000.0, 351, "rough", "2021-04-13"),
    ("elm", 7.2, 698900.75, 101, "smooth", "2021-04-14"),
    ("oak", 12.9, 1249100.5, 317, "rough", "2021-04-29"),
    ("elm", 9.9, 761000.25, 140, "rough", "2021-05-01"),
    ("oak", 13.7, 1288000.0, 322, "rough", "2021-05-10"),
    ("elm", 8.4, 719000.5, 122, "smooth", "2021-05-12"),
    ("oak", 12.0, 1200100.25, 301, "smooth", "2021-05-20"),
    ("elm", 7.9, 705600.0, 117, "smooth", "2021-05-30"),
]
N = len(TREES)
PLAIN = {"sort": "category", "height": "number", "mass": "number", "leaves": "number", "bark": "category"}
GERMAN = {"oak": "Eiche", "elm": "Rüster", "rough": "rauh", "smooth": "glatt"}


def comma(value: float, thousands: str = "") -> str:
    """A number with a decimal comma."""
    return f"{value:,.2f}".replace(",", "_").replace(".", ",").replace("_", thousands)


def german_day(day: str) -> str:
    return ".".join(reversed(day.split("-")))


def lines(header: str, rows: list[str], end: str = "\n") -> str:
    return end.join([header, *rows]) + end


def semicolons() -> Messy:
    rows = [f"{GERMAN[s]};{comma(h)};{comma(m)};{n};{GERMAN[b]}" for s, h, m, n, b, _ in TREES]
    kinds = {"Art": "category", "Höhe": "number", "Masse": "number", "Blätter": "number", "Rinde": "category"}
    body = lines("Art;Höhe;Masse;Blätter;Rinde", rows).encode()
    return Messy("semicolons.csv", body, "Art", kinds, N, told=("';'", "decimal comma"))


def excel_unicode_text() -> Messy:
    """What Excel saves as "Unicode text": UTF-16 with tabs."""
    rows = [f"{GERMAN[s]}\t{comma(h)}\t{n}\t{GERMAN[b]}" for s, h, _, n, b, _ in TREES]
    kinds = {"Art": "category", "Höhe": "number", "Blätter": "number", "Rinde": "category"}
    body = lines("Art\tHöhe\tBlätter\tRinde", rows, "\r\n").encode("utf-16")
    return Messy("unicode.txt", body, "Art", kinds, N, told=("decimal comma", "utf-16"))


def quoted_newlines() -> Messy:
    seen = ["by the lake", "near a barn, tall", 'the "old" one', "leaning", "dry top", "a nest in it"]
    rows = []
    for i, (s, h, _, n, b, _) in enumerate(TREES):
        remark = f"Tree number {i} stands\n{seen[i % 6]}; see the map".replace('"', '""')
        rows.append(f'{s},{h},{n},{b},"{remark}"')
    kinds = {"sort": "category", "height": "number", "leaves": "number", "bark": "category", "remark": "text"}
    return Messy("remarks.csv", lines("sort,height,leaves,bark,remark", rows).encode(), "sort", kinds, N)


def english_thousands() -> Messy:
    rows = [f'{s},{h},"{m:,.2f}","{n * 10:,}",{b}' for s, h, m, n, b, _ in TREES]
    return Messy("thousands.csv", lines("sort,height,mass,leaves,bark", rows).encode(), "sort", PLAIN, N, told=("thousands",))


def german_thousands() -> Messy:
    rows = [f"{GERMAN[s]};{comma(h)};{comma(m, '.')};{n};{GERMAN[b]}" for s, h, m, n, b, _ in TREES]
    kinds = {"Art": "category", "Höhe": "number", "Masse": "number", "Blätter": "number", "Rinde": "category"}
    body = lines("Art;Höhe;Masse;Blätter;Rinde", rows).encode()
    return Messy("tausender.csv", body, "Art", kinds, N, told=("decimal comma", "thousands"))


def comments_at_the_top() -> Messy:
    top = "# tree logger 3.1, station 7\n# height in m, mass in g; all dry\n"
    rows = [f"{s},{h},{m},{n},{b}" for s, h, m, n, b, _ in TREES]
    return Messy("logger.csv", (top + lines("sort,height,mass,leaves,bark", rows)).encode(), "sort", PLAIN, N, told=("2 lines",))


def title_lines() -> Messy:
    top = "Trees of the park, spring 2021\nmade by Ann\n\n"
    rows = [f"{s};{h};{m};{n};{b}" for s, h, m, n, b, _ in TREES]
    return Messy("titled.csv", (top + lines("sort;height;mass;leaves;bark", rows)).encode(), "sort", PLAIN, N, told=("3 lines",))


def stray_header() -> Messy:
    """Two exports put together by `cat`."""
    rows = [f"{s},{h},{m},{n},{b}" for s, h, m, n, b, _ in TREES]
    rows.insert(9, "sort,height,mass,leaves,bark")
    return Messy("two.csv", lines("sort,height,mass,leaves,bark", rows).encode(), "sort", PLAIN, N, told=("header",))


def units_row() -> Messy:
    rows = [",m,g,,", *(f"{s},{h},{m},{n},{b}" for s, h, m, n, b, _ in TREES)]
    return Messy("units.csv", lines("sort,height,mass,leaves,bark", rows).encode(), "sort", PLAIN, N, told=("units",))


def words_for_gaps() -> Messy:
    rows = [[GERMAN[s], comma(h), comma(m), str(n), GERMAN[b]] for s, h, m, n, b, _ in TREES]
    rows[1][1], rows[3][1], rows[4][2], rows[7][3], rows[8][4], rows[9][2] = "k.A.", "-", "n/a", "NA", "?", ""
    kinds = {"Art": "category", "Höhe": "number", "Masse": "number", "Blätter": "number", "Rinde": "category"}
    body = lines("Art;Höhe;Masse;Blätter;Rinde", [";".join(row) for row in rows]).encode()
    return Messy("gaps.csv", body, "Art", kinds, N, 6, told=("';'", "decimal comma"))


def things_to_leave_out() -> Messy:
    """Ids, dates, a column with one value and one with none."""
    rows = [f"T-{i:03},{1000 + i},{s},{h},{n},{b},{day},park,," for i, (s, h, _, n, b, day) in enumerate(TREES)]
    kinds = {
        "code": "id",
        "nr": "id",
        "sort": "category",
        "height": "number",
        "leaves": "number",
        "bark": "category",
        "day": "date",
        "place": "constant",
        "owner": "empty",
        "note": "empty",
    }
    header = "code,nr,sort,height,leaves,bark,day,place,owner,note"
    return Messy("full.csv", lines(header, rows).encode(), "sort", kinds, N, 2 * N)


def excel_trailing_separators() -> Messy:
    rows = [f'"{GERMAN[s]}";{comma(h)};{n};"{GERMAN[b]}";{german_day(day)};;' for s, h, _, n, b, day in TREES]
    kinds = {"Art": "category", "Höhe (m)": "number", "Blätter": "number", "Rinde": "category", "Tag": "date"}
    body = lines("Art;Höhe (m);Blätter;Rinde;Tag;;", [*rows, ";;;;;;"], "\r\n").encode("utf-8-sig")
    return Messy("trailing.csv", body, "Art", kinds, N, told=("';'", "decimal comma"))


def spreadsheet() -> Messy:
    """A title above the table, and a second sheet."""
    from openpyxl import Workbook

    book, target = Workbook(), io.BytesIO()
    sheet: Any = book.active
    sheet.append(["Trees of the park"])
    sheet.append([])
    sheet.append(["sort", "height", "leaves", "bark", "day"])
    for s, h, _, n, b, day in TREES:
        sheet.append([s, h, n, b, pd.Timestamp(day).to_pydatetime()])
    sheet["B5"] = "n/a"
    book.create_sheet("notes").append(["nothing to see"])
    book.save(target)
    kinds = {"sort": "category", "height": "number", "leaves": "number", "bark": "category", "day": "date"}
    return Messy("park.xlsx", target.getvalue(), "sort", kinds, N, 1)


def no_header() -> Messy:
    """As in the archives of machine learning: names are in another file."""
    rows = [f"{h},{n},{b},{s}" for s, h, _, n, b, _ in TREES]
    rows[5] = rows[5].replace("133", "?")
    kinds = {"column1": "number", "column2": "number", "column3": "category", "column4": "category"}
    return Messy("trees.data", ("\n".join(rows) + "\n").encode(), "column4", kinds, N, 1, told=("no header",))


def inches() -> Messy:
    """Quotes that quote nothing."""
    pots = ['5" pot', "10' row", 'none, "yet"']
    rows = [f"{s}\t{h}\t{n}\t{pots[i % 3]}" for i, (s, h, _, n, _, _) in enumerate(TREES)]
    kinds = {"sort": "category", "height": "number", "leaves": "number", "pot": "category"}
    return Messy("pots.tab", lines("sort\theight\tleaves\tpot", rows).encode(), "sort", kinds, N)


def frame() -> pd.DataFrame:
    table = pd.DataFrame(TREES, columns=["sort", "height", "mass", "leaves", "bark", "day"])
    table.loc[2, "height"] = None
    table.loc[3, "bark"] = "k.A."
    return table.assign(day=pd.to_datetime(table["day"]), tag=[f"{i:04x}" for i in range(N)])


FRAME = {**PLAIN, "day": "date", "tag": "id"}


def parquet() -> Messy:
    target = io.BytesIO()
    frame().to_parquet(target)
    return Messy("trees.parquet", target.getvalue(), "sort", FRAME, N, 2)


def feather() -> Messy:
    target = io.BytesIO()
    frame().to_feather(target)
    return Messy("trees.feather", target.getvalue(), "sort", FRAME, N, 2)


def squeezed_windows() -> Messy:
    """In the encoding of an old Windows, in a gz file."""
    rows = [f"{GERMAN[s]};{comma(h)};{n};{comma(m)}" for s, h, m, n, _, _ in TREES]
    rows = [f"{row};{'dünn' if i % 3 else 'groß'}" for i, row in enumerate(rows)]
    kinds = {"Art": "category", "Höhe": "number", "Blätter": "number", "Masse in €": "number", "Äste": "category"}
    body = lines("Art;Höhe;Blätter;Masse in €;Äste", rows, "\r\n").encode("cp1252")
    return Messy("windows.csv.gz", gzip.compress(body, mtime=0), "Art", kinds, N, told=("';'", "decimal comma", "cp1252"))


def zipped() -> Messy:
    target = io.BytesIO()
    rows = [f"{s}|{h}|{m}|{n}|{b}" for s, h, m, n, b, _ in TREES]
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("export/trees.csv", lines("sort|height|mass|leaves|bark", rows))
        archive.writestr("__MACOSX/export/._trees.csv", b"\0\5\x16\7")
    return Messy("export.zip", target.getvalue(), "sort", PLAIN, N, told=("'|'",))


def row_names() -> Messy:
    """R's write.table: spaces, quotes, and a header without a name for the names of the rows."""
    rows = [f'"{i + 1}" "{s}" {h} {n} "{b} bark"' for i, (s, h, _, n, b, _) in enumerate(TREES)]
    rows[4] = rows[4].replace(str(TREES[4][1]), "NA")
    kinds = {"row": "id", "sort": "category", "height": "number", "leaves": "number", "bark": "category"}
    return Messy("r.txt", lines('"sort" "height" "leaves" "bark"', rows).encode(), "sort", kinds, N, 1)


BY_HAND = (
    semicolons,
    excel_unicode_text,
    quoted_newlines,
    english_thousands,
    german_thousands,
    comments_at_the_top,
    title_lines,
    stray_header,
    units_row,
    words_for_gaps,
    things_to_leave_out,
    excel_trailing_separators,
    spreadsheet,
    no_header,
    inches,
    parquet,
    feather,
    squeezed_windows,
    zipped,
    row_names,
)


def random_dialect(seed: int) -> Messy:
    """A table in a dialect drawn at random: separator, decimals, quotes, encoding, gaps, lines at the top, columns of no use."""
    rng = np.random.default_rng(seed)

    def one(*words: Any) -> Any:
        return words[rng.integers(len(words))]

    def some(share: float) -> bool:
        return bool(rng.random() < share)

    n, sep, decimal, gap = (
        int(rng.integers(25, 60)),
        one(",", ";", "\t", "|"),
        one(".", ","),
        one("", "NA", "n/a", "k.A.", "-", "?"),
    )
    sort = rng.integers(2, size=n)
    numbers = {"Größe": rng.normal(10 + 4 * sort, 1).round(2), "size 2": rng.normal(900 - 300 * sort, 80).round(1)}
    columns: dict[str, list[str]] = {"sort": [("ash", "bay tree")[s] for s in sort]}
    kinds = {"sort": "category"}
    for name, values in numbers.items():
        columns[name] = [str(v).replace(".", decimal) for v in values]
        kinds[name] = "number"
    columns |= {
        "seeds": [str(v) for v in rng.poisson(3 + 9 * sort)],
        "colour": [one("red", "green", "pale, blue") for _ in range(n)],
    }
    kinds |= {"seeds": "number", "colour": "category"}
    if some(0.5):
        columns["sample"], kinds["sample"] = [f"S{i}-{rng.integers(1000, 9999)}" for i in range(n)], "id"
    if some(0.5):
        days = pd.Timestamp("2019-05-04") + pd.to_timedelta(rng.integers(0, 900, n), "D")
        columns["day"], kinds["day"] = list(days.strftime(one("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%Y-%m-%d %H:%M"))), "date"
    if some(0.4):
        columns["unit"], kinds["unit"] = ["cm"] * n, "constant"
    if some(0.4):
        columns["Bemerkung"], kinds["Bemerkung"] = [""] * n, "empty"
    names = [str(name) for name in rng.permutation(list(columns))]
    gaps = sum(kinds[name] == "empty" for name in names) * n
    for name in set(names) - {"sort", "Bemerkung", "sample", "day", "unit"}:
        for row in rng.integers(n, size=2):
            gaps += columns[name][row] != gap
            columns[name][row] = gap
    target, end = io.StringIO(), one("\n", "\r\n")
    target.write("".join(one("# by logger 7", "# a comment; with, marks") + end for _ in range(one(0, 0, 1, 2))))
    writer = csv.writer(target, delimiter=sep, quoting=one(csv.QUOTE_MINIMAL, csv.QUOTE_ALL), lineterminator=end)
    more = [""] if some(0.2) else []
    for row in [names, *zip(*(columns[name] for name in names), strict=True)]:
        writer.writerow([*row, *more])
    body = target.getvalue().encode(one("utf-8", "utf-8-sig", "utf-16", "cp1252"))
    suffix = one("", "", ".gz", ".zip")
    name = f"dialect{seed}.{one('csv', 'txt', 'dat') if sep != chr(9) else one('tsv', 'txt')}"
    if suffix == ".zip":
        box = io.BytesIO()
        with zipfile.ZipFile(box, "w") as archive:
            archive.writestr(name, body)
        body = box.getvalue()
    elif suffix:
        body = gzip.compress(body, mtime=0)
    return Messy(name + suffix, body, "sort", {name: kinds[name] for name in names}, n, gaps)


def messy_files() -> list[Messy]:
    """All thirty."""
    return [*(make() for make in BY_HAND), *(random_dialect(seed) for seed in range(10))]


def write(folder: Path) -> list[tuple[Path, Messy]]:
    """The files, in a folder."""
    found = [(folder / messy.name, messy) for messy in messy_files()]
    for path, messy in found:
        path.write_bytes(messy.body)
    return found
