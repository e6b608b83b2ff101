"""Tables as programs write them: one reader finds out how, and the same cells come from CSV and Parquet."""

from __future__ import annotations

import datetime
import decimal
import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drom_net.core.errors import DataError
from drom_net.data.cells import MISSING
from drom_net.data.faults import Faults
from drom_net.data.formats import TableFormat, file_formats
from drom_net.data.formats.dialects import find_dialect
from drom_net.data.tables import Days, FileTable, Numbers, Texts, Wanted, as_texts

ROWS = [["31.7", "Ulm", "1"], ["-2.25", "Bonn", "0"], ["", "Ulm", "1"], ["4e2", "é", "0"]]
HEADER = ["dose", "town", "ill"]


def text_of(delimiter: str = ",", *, decimal: str = ".", end: str = "\n", rows: list[list[str]] | None = None) -> str:
    lines = [HEADER, *(ROWS if rows is None else rows)]
    lines = [[cell.replace(".", decimal) for cell in line] for line in lines]
    quoted = [[f'"{cell}"' if delimiter in cell else cell for cell in line] for line in lines]
    return "".join(delimiter.join(line) + end for line in quoted)


def read(path: Path, *, format: str = "", **wanted: Any) -> FileTable:
    faults = Faults()
    reader = file_formats()[format or ("parquet" if path.suffix == ".parquet" else "csv")]
    assert isinstance(reader, TableFormat)
    found = reader.table(path, path.name, Wanted(**wanted), faults)
    faults.raise_if_any()
    assert found is not None
    return found


def plain(table: FileTable) -> dict[str, list[Any]]:
    """Each column as Python values; None for missing."""
    found: dict[str, list[Any]] = {}
    for name, cells in table.cells.items():
        if isinstance(cells, Texts):
            found[name] = [None if code < 0 else cells.values[code].strip() for code in cells.codes.tolist()]
        else:
            found[name] = [None if value != value else value for value in cells.values.tolist()]
    return found


EXPECTED = {"dose": [31.7, -2.25, None, 400.0], "town": ["Ulm", "Bonn", "Ulm", "é"], "ill": [1.0, 0.0, 1.0, 0.0]}


# --- how a CSV file is written -----------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_delimiter_decimals_and_encoding_are_found(
    tmp_path: Path, delimiter: str, decimal: str, encoding: str, end: str
) -> None:
    if (delimiter, decimal) == (",", ","):
        return
    path = tmp_path / "a.csv"
    path.write_bytes(text_of(delimiter, decimal=decimal, end=end).encode(encoding))
    assert plain(read(path)) == EXPECTED
    dialect = find_dialect(path, path.name, Wanted(), Faults())
    assert dialect is not None
    assert (dialect.delimiter, dialect.decimal) == (delimiter, decimal)
    given = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding}
    assert plain(read(path, **given)) == EXPECTED


@pytest.mark.parametrize(
    ("delimiter", "decimal", "encoding", "words"),
    [
        (",", ".", "utf-8", ""),
        (";", ",", "cp1252", "semicolons, decimal commas, cp1252"),
        ("\t", ".", "utf-16", "tabs, utf-16"),
        ("|", ".", "utf-8-sig", "bars"),
    ],
)
def test_what_is_not_usual_is_said(tmp_path: Path, delimiter: str, decimal: str, encoding: str, words: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text_of(delimiter, decimal=decimal).encode(encoding))
    assert read(path).remark == words


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.csv{suffix}"
    data = text_of().encode()
    path.write_bytes(gzip.compress(data) if suffix == ".gz" else pa.Codec("zstd").compress(data, asbytes=True))
    assert plain(read(path)) == EXPECTED


@pytest.mark.parametrize("before", ["\n", "\r\n\r\n", "  \n\n"])
def test_blank_lines_are_no_rows(tmp_path: Path, before: str) -> None:
    path = tmp_path / "a.csv"
    lines = text_of().splitlines(keepends=True)
    path.write_text(
        before + "".join(line + blank for line, blank in zip(lines, ["", "\n", "   \n", "", "\n"], strict=True))
    )
    table = read(path)
    assert plain(table) == EXPECTED
    assert table.place(1, "town") == f'a.csv:{before.count(chr(10)) + 4}, column "town"'


def test_line_breaks_in_quotes_are_part_of_the_cell(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('x,note,ill\n1,"two\nlines",1\n2,"a ""word""",0\n3,"a,b",1\n', newline="")
    table = read(path)
    assert plain(table)["note"] == ["two\nlines", 'a "word"', "a,b"]
    assert [table.place(row, "x") for row in range(3)] == [f'a.csv:{line}, column "x"' for line in (2, 4, 5)]


def test_a_row_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,note,ill\n1," + "word " * 2_000_000 + ",1\n2,short,0\n")
    assert [len(text) for text in plain(read(path))["note"]] == [9_999_999, 5]


def test_what_begins_as_numbers_may_go_on_as_texts(tmp_path: Path) -> None:
    """Types are guessed from the first block of a file alone."""
    path = tmp_path / "a.csv"
    many = 400_000
    path.write_text("code,x,ill\n" + "007,1.5,1\n" * many + "A7,2.5,0\n")
    table = read(path)
    code, x = table.cells["code"], as_texts(table.cells["x"])
    assert isinstance(code, Texts) and code.values == ["007", "A7"]
    assert table.num_rows == many + 1 and sorted(x.values) == ["1.5", "2.5"]


@pytest.mark.parametrize("text", sorted(MISSING - {""}))
def test_a_cell_without_a_value_is_missing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'x,town,ill\n1.5,a,1\n{text},{text},{text}\n"{text}"," {text} ","{text}"\n,,\n2,b,0\n')
    assert plain(read(path)) == {
        "x": [1.5, None, None, None, 2.0],
        "town": ["a", None, None, None, "b"],
        "ill": [1.0, None, None, None, 0.0],
    }


def test_further_texts_may_mean_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,town,ill\n1.5,a,1\n-999,k. A.,0\n")
    assert plain(read(path, missing=("-999", "k. A.")))["x"] == [1.5, None]


def test_columns_are_left_out_or_read_as_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("code,x,ill\n007,1,1\n7,2,0\n")
    assert plain(read(path, texts={"code"}, skip={"x"})) == {"code": ["007", "7"], "ill": [1.0, 0.0]}


def test_a_column_without_a_name_gets_one(tmp_path: Path) -> None:
    """pandas writes its index so."""
    path = tmp_path / "a.csv"
    path.write_text(",x,ill\n0,1.5,1\n1,2.5,0\n")
    assert list(read(path).cells) == ["column 1", "x", "ill"]


def test_a_delimiter_that_is_rarer_but_the_same_in_all_rows_is_the_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x;note;ill\n1,5;a, b, c;1\n2,5;d;0\n3;e, f;1\n")
    table = read(path)
    assert list(table.cells) == ["x", "note", "ill"]
    assert plain(table)["x"] == [1.5, 2.5, 3.0]


@pytest.mark.parametrize(
    "data", [b"\x00" * 50, b"a\x00b,c\n1,2\n", b"\xff\xfe\x00", b"\xfe\xff\x00", b'"', b"\r", b"a,b\n\x00,1\n"]
)
def test_bytes_that_are_no_table_are_a_fault_or_a_table(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    try:
        table = read(path)
    except DataError as error:
        assert str(error).startswith("a.csv")
    else:
        assert table.num_rows > 0


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("a.csv", "a.parquet"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(DataError, match=f"{name}: expected a file that can be read, got not a regular file"):
            read(tmp_path / name)


@pytest.mark.parametrize("damage", ["cut", "changed"])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_files_that_are_damaged_far_inside(tmp_path: Path, suffix: str, damage: str) -> None:
    """Behind what is looked at to find out how it is written."""
    path = tmp_path / f"a.csv{suffix}"
    numbers = np.random.default_rng(0).integers(0, 10**9, 200_000).tolist()
    data = ("x,ill\n" + "".join(f"{number},1\n" for number in numbers)).encode()
    packed = gzip.compress(data) if suffix == ".gz" else pa.Codec("zstd").compress(data, asbytes=True)
    half = len(packed) // 2
    path.write_bytes(packed[:half] if damage == "cut" else packed[:half] + b"\xff" * 64 + packed[half + 64 :])
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).startswith(f"a.csv{suffix}:")  # zstd need not notice it: the rows do


def test_the_encoding_is_found_from_what_is_far_inside_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,town,ill\n" + b"1.5,a,1\n" * 100_000 + "2.5,Köln,0\n".encode("cp1252"))
    assert plain(read(path))["town"][-1] == "Köln"
    path.write_bytes("x,town,ill\n1.5,Köln,1\n".encode() + b"1.5,a,1\n" * 100_000 + "2.5,Köln,0\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"a\.csv:100003: expected UTF-8 text, got byte 0xf6"):
        read(path)


def test_the_header_of_a_large_file_costs_no_more_than_a_small_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,ill\n" + "1.5,1\n" * 500_000)
    faults = Faults()
    dialect = find_dialect(path, "a.csv", Wanted(), faults)
    assert dialect is not None and dialect.header == ("x", "ill") and not faults.count


# --- Parquet -----------------------------------------------------------------------------------------


def days(*moments: str | None) -> list[float | None]:
    epoch = datetime.datetime(1970, 1, 1)
    return [
        None if text is None else (datetime.datetime.fromisoformat(text) - epoch) / datetime.timedelta(days=1)
        for text in moments
    ]


MOMENTS = ("2024-12-31T10:20:30", "1969-07-20T00:00:00", None, "2000-02-29T23:59:59")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps(tmp_path: Path, unit: str, zone: str | None) -> None:
    """Of one with a zone the time in UTC counts, as of a text with one."""
    values = [None if text is None else datetime.datetime.fromisoformat(text) for text in MOMENTS]
    pq.write_table(
        pa.table({"at": pa.array(values, pa.timestamp(unit, zone)), "ill": [1, 0, 1, 0]}), tmp_path / "a.parquet"
    )
    cells = read(tmp_path / "a.parquet").cells["at"]
    assert isinstance(cells, Days) and cells.has_time
    expected = [np.nan if day is None else day for day in days(*MOMENTS)]
    np.testing.assert_allclose(cells.values, expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None, 3], pa.int8()), [1.0, None, 3.0]),
        (pa.array([2**40, None, -(2**40)]), [2.0**40, None, -(2.0**40)]),
        (pa.array([1, 2, 2**63], pa.uint64()), [1.0, 2.0, 2.0**63]),
        (pa.array([1.5, None, float("nan")], pa.float32()), [1.5, None, None]),
        (pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3.00")]), [1.25, None, -3.0]),
        (pa.array([True, None, False]), ["true", None, "false"]),
        (pa.array(["a", None, " a "]), ["a", None, "a"]),
        (pa.array(["a", "", "NA"], pa.large_string()), ["a", None, None]),
        (pa.array(["a", None, "b"]).dictionary_encode(), ["a", None, "b"]),
        (pa.array([5, None, 7]).dictionary_encode(), [5.0, None, 7.0]),
        (pa.array([datetime.date(1970, 1, 3), None, datetime.date(1969, 12, 31)]), [2.0, None, -1.0]),
        (pa.array([datetime.date(1970, 1, 3), None], pa.date64()), [2.0, None]),
        (pa.array([None, None], pa.null()), [None, None]),
    ],
    ids=str,
)
def test_types_of_parquet(tmp_path: Path, array: Any, expected: list[Any]) -> None:
    pq.write_table(pa.table({"x": array, "ill": [1] * len(array)}), tmp_path / "a.parquet")
    assert plain(read(tmp_path / "a.parquet"))["x"] == expected


@pytest.mark.parametrize("kind", [pa.float64(), pa.int64(), pa.bool_(), pa.string(), pa.decimal128(9, 2)])
def test_any_column_can_be_read_as_texts(tmp_path: Path, kind: Any) -> None:
    array = pa.array([1, None, 0], pa.float64()).cast(kind)
    pq.write_table(pa.table({"x": array, "ill": [1, 0, 1]}), tmp_path / "a.parquet")
    cells = read(tmp_path / "a.parquet", texts={"x"}).cells["x"]
    assert isinstance(cells, Texts) and cells.codes.tolist() == [0, -1, 1]


def test_dictionaries_may_differ_from_row_group_to_row_group(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.dictionary(pa.int32(), pa.string())), ("ill", pa.int64())])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema) as writer:
        for values in (["a", "b"], ["c", "a"], [None, "b"]):
            writer.write_table(
                pa.table({"x": pa.array(values).dictionary_encode().cast(schema[0].type), "ill": [1, 0]}, schema)
            )
    assert plain(read(tmp_path / "a.parquet"))["x"] == ["a", "b", "c", "a", None, "b"]


def test_names_of_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({" x ": [1], "ill": [1], "__index_level_0__": [7]}), tmp_path / "a.parquet")
    assert list(read(tmp_path / "a.parquet").cells) == ["x", "ill"]
    pq.write_table(pa.table({"x": [1], "x ": [1], "ill": [1]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r'a\.parquet, column 2: expected a name of its own, got "x" again'):
        read(tmp_path / "a.parquet")


# --- the same cells ----------------------------------------------------------------------------------

NUMBERS = st.none() | st.floats(-1e100, 1e100) | st.integers(-(10**15), 10**15).map(float)
WORDS = st.none() | st.sampled_from(["Ulm", "a b", 'say "a"', "x;y", "tab\there", "é ü", "line\nbreak"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(st.tuples(NUMBERS, WORDS, st.booleans()), min_size=1, max_size=20),
    st.sampled_from([(",", "."), (";", "."), (";", ","), ("\t", "."), ("|", ",")]),
    st.sampled_from(["utf-8", "utf-16", "cp1252"]),
)
def test_the_same_cells_come_from_every_file(
    tmp_path: Path, rows: list[tuple[float | None, str | None, bool]], style: tuple[str, str], encoding: str
) -> None:
    delimiter, point = style

    def cell(value: object) -> str:
        text = "" if value is None else repr(value).replace(".", point) if isinstance(value, float) else str(value)
        return '"' + text.replace('"', '""') + '"' if isinstance(value, str) else text

    text = "\n".join(delimiter.join(map(cell, line)) for line in [("x", "town", "ill"), *rows]) + "\n"
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    columns = [list(column) for column in zip(*rows, strict=True)]
    kinds = (pa.float64(), pa.string(), pa.bool_())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    pq.write_table(pa.table(dict(zip(("x", "town", "ill"), arrays, strict=True))), tmp_path / "a.parquet")
    written = {"delimiter": delimiter, "decimal": point, "encoding": encoding}  # a table of a row tells too little
    csv, parquet = read(tmp_path / "a.csv", **written), read(tmp_path / "a.parquet")
    numbers = (csv.cells["x"], parquet.cells["x"])
    if all(isinstance(cells, Numbers) for cells in numbers):
        np.testing.assert_array_equal(numbers[0].values, numbers[1].values)  # type: ignore[union-attr]
    else:  # a column of missing values has no type
        assert not any(value is not None for value in plain(csv)["x"])
    assert plain(csv)["town"] == plain(parquet)["town"]
    assert [text.lower() for text in plain(csv)["ill"]] == plain(parquet)["ill"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_as_texts_are_the_same(tmp_path: Path, suffix: str) -> None:
    table = {"x": [1.5, 2.0, None, -3.0], "ill": [1, 0, 1, 0]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("x,ill\n1.5,1\n2.0,0\n,1\n-3,0\n")
    texts = as_texts(read(tmp_path / f"a.{suffix}").cells["x"])
    assert [None if code < 0 else texts.values[code] for code in texts.codes.tolist()] == ["1.5", "2", None, "-3"]
