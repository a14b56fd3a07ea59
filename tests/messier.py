"""More files as they come, of kinds that those of `messy` do not have: units in cells, money, totals, footnotes, merged cells."""

from __future__ import annotations

import datetime
import io

from openpyxl import Workbook

from messy import GERMAN, TREES, Messy, N, comma, lines

NARROW = "\u202f"  # parts thousands in France
SORT, HEIGHT = {"sort": "category"}, {"height": "number"}


def units_in_cells() -> Messy:
    rows = [f"{GERMAN[s]};{comma(h)} m;{n % 100} %;{comma(h + 5)}°C" for s, h, _, n, _, _ in TREES]
    kinds = {"Art": "category", "Höhe": "number", "Feuchte": "number", "Temp": "number"}
    body = lines("Art;Höhe;Feuchte;Temp", rows, "\r\n").encode("cp1252")
    return Messy("einheiten.csv", body, "Art", kinds, N, told=("decimal comma", "Höhe (m)", "Feuchte (%)", "Temp (°C)"))


def french_money() -> Messy:
    rows = [f"{s};{comma(m, NARROW)};{comma(h)}{NARROW}€;{day[8:]}/{day[5:7]}/{day[:4]}" for s, h, m, _, _, day in TREES]
    kinds = {"Sorte": "category", "Masse": "number", "Prix": "number", "Date": "date"}
    told = ("decimal comma", "marks for thousands", "Prix (€)")
    return Messy("export_fr.csv", lines("Sorte;Masse;Prix;Date", rows).encode(), "Sorte", kinds, N, told=told)


def brazilian_money() -> Messy:
    rows = [f"{s};R$ {comma(m, '.')};{comma(h)};{'sim' if n > 200 else 'não'}" for s, h, m, n, _, _ in TREES]
    kinds = {"Tipo": "category", "Preço": "number", "Altura": "number", "Grande": "category"}
    body = lines("Tipo;Preço;Altura;Grande", rows).encode("cp1252")
    return Messy("precos.csv", body, "Tipo", kinds, N, told=("Preço (R$)", "cp1252"))


def swiss_thousands() -> Messy:
    rows = [f"{s};{f'{m:,.2f}'.replace(',', chr(39))};{n}" for s, _, m, n, _, _ in TREES]
    kinds = SORT | {"mass": "number", "leaves": "number"}
    return Messy("schweiz.csv", lines("sort;mass;leaves", rows).encode(), "sort", kinds, N, told=("marks for thousands",))


def comments_between() -> Messy:
    rows = [f"{s}\t{h}\t{n}" + ("\n# check this one, please" if n == 120 else "") for s, h, _, n, _, _ in TREES]
    body = "#tree table v2\n#made today\n" + lines("sort\theight\tleaves", rows) + "# end\n"
    return Messy("between.tsv", body.encode(), "sort", SORT | HEIGHT | {"leaves": "number"}, N, told=("comments",))


def totals() -> Messy:
    rows = [f"{s},{h},{n}" for s, h, _, n, _, _ in TREES]
    body = lines("sort,height,leaves", [*rows, f"Total,,{sum(tree[3] for tree in TREES)}"])
    return Messy("totals.csv", body.encode(), "sort", SORT | HEIGHT | {"leaves": "number"}, N, told=("totals",))


def footnote() -> Messy:
    rows = [f"{s};{h};{n}" for s, h, _, n, _, _ in TREES]
    body = lines("sort;height;leaves", [*rows, "", "Source: the park, 2021"])
    return Messy("footnote.csv", body.encode(), "sort", SORT | HEIGHT | {"leaves": "number"}, N, told=("below the table",))


def database_listing() -> Messy:
    rows = [f" {s:4} | {h:6.2f} | {n:6d}" for s, h, _, n, _, _ in TREES]
    body = lines(" sort | height | leaves", ["------+--------+--------", *rows, f"({N} rows)"])
    return Messy("listing.txt", body.encode(), "sort", SORT | HEIGHT | {"leaves": "number"}, N, told=("ruling", "below"))


def accounts() -> Messy:
    """Negative numbers in parentheses, or with the sign of typographers; dates and times in words."""
    rows = [
        f"{s},{f'({h})' if n > 300 else h},{'−' * (n < 120)}{n},{i + 1} March 2021,{i:02}:30"
        for i, (s, h, _, n, _, _) in enumerate(TREES)
    ]
    kinds = SORT | {"profit": "number", "change": "number", "when": "date", "clock": "date"}
    return Messy("accounts.csv", lines("sort,profit,change,when,clock", rows).encode(), "sort", kinds, N, told=("negative",))


def unknowns() -> Messy:
    rows = [
        f"{s};{'keine Angabe' if i % 7 == 0 else comma(h)};{'unknown' if i == 3 else b}"
        for i, (s, h, _, _, b, _) in enumerate(TREES)
    ]
    kinds = {"sort": "category", "height": "number", "bark": "category"}
    return Messy("unbekannt.csv", lines("sort;height;bark", rows).encode(), "sort", kinds, N, 3, told=("words for gaps",))


def two_line_header() -> Messy:
    """A title merged over the table, and a header of two lines."""
    book = Workbook()
    sheet = book.active
    sheet.append(["Forest inventory 2021"])
    sheet.merge_cells("A1:E1")
    for row in ([], ["Plot", "Sort", "Size", None, "Day"], [None, None, "Height", "Mass", None]):
        sheet.append(row)
    sheet.merge_cells("C3:D3")
    for i, (s, h, m, _, _, day) in enumerate(TREES):
        sheet.append([f"P{i}", s, h, m, datetime.datetime.fromisoformat(day)])
    kinds = {"Plot": "id", "Sort": "category", "Size Height": "number", "Size Mass": "number", "Day": "date"}
    return Messy("header.xlsx", _saved(book), "Sort", kinds, N, told=("header of two lines",))


def merged_down() -> Messy:
    """A sheet of words before that of the table, cells merged over several rows, and a row of totals."""
    book = Workbook()
    book.active.title, book.active["A1"] = "Read me", "This workbook holds the trees of 2021."
    sheet = book.create_sheet("Trees")
    sheet.append(["Region", "Sort", "Height", "Leaves"])
    for i, (s, h, _, n, _, _) in enumerate(TREES):
        sheet.append([{0: "north", 9: "south"}.get(i), s, h, n])
    sheet.merge_cells("A2:A10")
    sheet.merge_cells("A11:A19")
    sheet.append(["Sum", None, sum(tree[1] for tree in TREES), sum(tree[3] for tree in TREES)])
    kinds = {"Region": "category", "Sort": "category", "Height": "number", "Leaves": "number"}
    return Messy("merged.xlsx", _saved(book), "Sort", kinds, N, told=("'Trees' of the sheets", "totals"))


def _saved(book: Workbook) -> bytes:
    body = io.BytesIO()
    book.save(body)
    return body.getvalue()


MESSIER = (
    units_in_cells,
    french_money,
    brazilian_money,
    swiss_thousands,
    comments_between,
    totals,
    footnote,
    database_listing,
    accounts,
    unknowns,
    two_line_header,
    merged_down,
)


def messier_files() -> list[Messy]:
    """All twelve."""
    return [make() for make in MESSIER]
