"""The other public sets: `mhci`, `amazon`, `newsgroups`, `landmine`, `wisdm`."""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path

import numpy as np

from drom_net.algorithms.features import Matrix, Vector
from drom_net.data.dataset import TaskData
from drom_net.data.faults import Faults, parse_number, quoted
from drom_net.data.formats.svmlight import Svmlight
from drom_net.data.labels import NUMERIC
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.public.content import (
    Content,
    Files,
    binary_labels,
    prepared,
    read_matlab,
    signs,
    sparse_counts,
    standardised,
    tf_idf,
    wrong,
)
from drom_net.data.public.places import read_bytes
from drom_net.data.public.ratings import zip_member
from drom_net.data.tables import Source, check_finite

# --- mhci --------------------------------------------------------------------------------------------

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
PEPTIDE_LENGTH = 9
BINDER_NM = 500.0
MOLECULES = (
    *("HLA-A*02:01", "HLA-A*02:03", "HLA-A*02:06", "HLA-A*68:02", "HLA-A*02:02", "HLA-A*11:01"),
    *("HLA-A*03:01", "HLA-A*33:01", "HLA-A*31:01", "HLA-A*68:01", "HLA-A*01:01", "HLA-A*24:02"),
)
"""Those with most peptides, in that order."""
MHCI_TASKS = tuple(molecule.replace("*", "-").replace(":", "-") for molecule in MOLECULES)
MHCI_FEATURES = {
    "dipeptides": tuple(first + second for first in RESIDUES for second in RESIDUES),
    "one-hot": tuple(f"{position}{residue}" for position in range(1, PEPTIDE_LENGTH + 1) for residue in RESIDUES),
}
_MHCI_CSV = "curated_training_data.no_mass_spec.csv"


def read_mhci(files: Files, features: str) -> Content:
    """The 12 molecules; a row a peptide, in the order in which the file first has it.

    Args:
        features: As in `settings.Mhci`.
    """
    path = files["curated_training_data.no_mass_spec.zip"]
    place = f"{path}, {_MHCI_CSV}"
    text = io.TextIOWrapper(io.BytesIO(zip_member(path, _MHCI_CSV)), encoding="utf-8", errors="replace", newline="")
    lines = csv.reader(text)
    header = next(lines, [])
    wanted = ("allele", "peptide", "ic50", "measurement_source")
    for name in wanted:
        if name not in header:
            raise wrong(f"{place}:1", f"the column {name}", ", ".join(header) or "an empty file")
    allele, peptide, ic50, source = (header.index(name) for name in wanted)
    measured: dict[str, dict[str, list[float]]] = {molecule: {} for molecule in MOLECULES}
    residues = re.compile(f"[{RESIDUES}]{{{PEPTIDE_LENGTH}}}")
    for cells in lines:
        if len(cells) != len(header):
            raise wrong(f"{place}:{lines.line_num}", f"{len(header)} fields", len(cells))
        if cells[allele] in measured and cells[source].startswith("Sette") and residues.fullmatch(cells[peptide]):
            number = parse_number(cells[ic50])
            if number is None or not 0.0 < number < math.inf:
                raise wrong(f"{place}:{lines.line_num}, column ic50", "a number above 0", quoted(cells[ic50]))
            measured[cells[allele]].setdefault(cells[peptide], []).append(number)
    rows, labels = [], []
    for molecule, peptides in measured.items():
        if not peptides:
            raise wrong(place, f"peptides of {molecule}", "none")
        rows.append(_peptide_rows(list(peptides), features))
        labels.append(signs(np.array([_geometric_mean(found) <= BINDER_NM for found in peptides.values()])))
    unit = Preprocessing(raw_dim=len(MHCI_FEATURES[features]), normalize=True)
    return prepared(MHCI_TASKS, rows, labels, MHCI_FEATURES[features], unit)


def _geometric_mean(numbers: list[float]) -> float:
    # One measurement is itself: exp(log(500)) is not 500 in floats.
    return numbers[0] if len(set(numbers)) == 1 else math.exp(math.fsum(map(math.log, numbers)) / len(numbers))


def _peptide_rows(peptides: list[str], features: str) -> Matrix:
    """Column 20 i + j counts residue i directly before j; or column 20 p + i is 1 where position p has residue i."""
    code = {residue: index for index, residue in enumerate(RESIDUES)}
    codes = np.array([[code[residue] for residue in peptide] for peptide in peptides])
    columns = 20 * codes[:, :-1] + codes[:, 1:] if features == "dipeptides" else 20 * np.arange(PEPTIDE_LENGTH) + codes
    rows = np.zeros((len(peptides), len(MHCI_FEATURES[features])))
    np.add.at(rows, (np.arange(len(peptides))[:, np.newaxis], columns), 1.0)
    return rows


# --- amazon ------------------------------------------------------------------------------------------

DOMAINS = ("books", "dvd", "electronics", "kitchen")
AMAZON_DIM = 5000


def read_amazon(files: Files) -> Content:
    """Counts as in the files, unit norm."""
    unit = Preprocessing(raw_dim=AMAZON_DIM, zero_based=True, normalize=True)
    faults, tasks = Faults(), []
    for domain in DOMAINS:
        path = files[f"{domain}_train.svmlight"]
        table = Svmlight().table(Source(path, str(path), AMAZON_DIM, zero_based=True), faults)
        if table is not None:
            check_finite(table, str(path), faults)
            found = [NUMERIC.sign(text) for text in table.labels]
            if not all(found):
                raise wrong(path, "the labels -1 and +1", "others")
            tasks.append(TaskData(domain, unit.apply(table.rows, domain), np.array(found, dtype=np.float64)))
    faults.raise_if_any()
    return Content(tuple(tasks), None, unit)


# --- newsgroups --------------------------------------------------------------------------------------

NEWSGROUPS_TASKS = ("task1", "task2")
NEWSGROUPS_DIM = 2000


def read_newsgroups(files: Files, pair: str) -> Content:
    """tf-idf over the posts of both tasks; class 2 is +1.

    Args:
        pair: As in `settings.Newsgroups`.
    """
    counts, labels = [], []
    for task in NEWSGROUPS_TASKS:
        path = files[f"{pair.replace('-', '.vs.')}_{task}.mat"]
        fea, gnd = read_matlab(path, "fea", "gnd")
        counts.append(sparse_counts(fea, f"{path}, fea", NEWSGROUPS_DIM))
        labels.append(binary_labels(gnd, f"{path}, gnd", len(counts[-1].indptr) - 1, 2, 1))
    return tf_idf(NEWSGROUPS_TASKS, counts, labels, np.arange(NEWSGROUPS_DIM), None)


# --- landmine ----------------------------------------------------------------------------------------

FIELDS = tuple(f"field-{number:02d}" for number in range(1, 30))
LANDMINE_DIM = 9


def read_landmine(files: Files) -> Content:
    """Standardised columns, unit norm, a bias of 0.3."""
    path = files["LandmineData.mat"]
    feature, label = read_matlab(path, "feature", "label")
    for key, cells in (("feature", feature), ("label", label)):
        if np.shape(cells) != (1, len(FIELDS)):
            raise wrong(f"{path}, {key}", f"1 x {len(FIELDS)} cells", np.shape(cells))
    rows: list[Matrix] = []
    labels: list[Vector] = []
    for field in range(len(FIELDS)):
        found = np.asarray(feature[0, field], dtype=np.float64)
        if found.ndim != 2 or found.shape[1] != LANDMINE_DIM or not np.isfinite(found).all():
            raise wrong(f"{path}, feature{{{field + 1}}}", f"N x {LANDMINE_DIM} finite numbers", found.shape)
        rows.append(found)
        labels.append(binary_labels(label[0, field], f"{path}, label{{{field + 1}}}", len(found), 1, 0))
    names = tuple(f"radar-{number}" for number in range(1, LANDMINE_DIM + 1))
    return prepared(FIELDS, rows, labels, names, standardised(rows))


# --- wisdm -------------------------------------------------------------------------------------------

PEOPLE = tuple(f"user-{number:02d}" for number in range(1, 37))
WISDM_FEATURES = (
    *(f"{axis}{number}" for axis in "XYZ" for number in range(10)),
    *("YAVG", "ZAVG"),
    *(f"{axis}{what}" for what in ("PEAK", "ABSOLDEV", "STANDDEV") for axis in "XYZ"),
    "RESULTANT",
)
WISDM_ACTIVITIES = {"walking": ("Walking",), "stairs": ("Upstairs", "Downstairs")}
_WISDM_FIELDS = 46
_XAVG = 30
"""0 in every row; left out."""


def read_wisdm(files: Files, activity: str) -> Content:
    """The median for a missing peak; standardised columns, unit norm, a bias of 0.3.

    Args:
        activity: As in `settings.Wisdm`.
    """
    path = files["WISDM_ar_v1.1_transformed.arff"]
    numbers, people, activities = _read_arff(path)
    numbers = np.delete(numbers, _XAVG, axis=1)
    medians = np.nanmedian(numbers, axis=0)
    numbers = np.where(np.isnan(numbers), medians, numbers)
    positive = signs(np.isin(activities, WISDM_ACTIVITIES[activity]))
    rows, labels = [], []
    for person, name in enumerate(PEOPLE, start=1):
        mine = np.flatnonzero(people == person)
        if not len(mine):
            raise wrong(path, f"windows of {name}", "none")
        rows.append(numbers[mine])
        labels.append(positive[mine])
    return prepared(PEOPLE, rows, labels, WISDM_FEATURES, standardised(rows))


def _read_arff(path: Path) -> tuple[Matrix, np.ndarray, list[str]]:
    """The 43 numbers (NaN where one is missing), the person, and the activity of each window."""
    lines = read_bytes(path).decode("utf-8", errors="replace").splitlines()
    start = next((number for number, line in enumerate(lines) if line.strip().lower() == "@data"), None)
    if start is None:
        raise wrong(path, "a line @data", "none")
    numbers, people, activities = [], [], []
    for number, line in enumerate(lines[start + 1 :], start=start + 2):
        if not line.strip():
            continue
        cells = line.strip().split(",")
        if len(cells) != _WISDM_FIELDS:
            raise wrong(f"{path}:{number}", f"{_WISDM_FIELDS} fields", len(cells))
        found = [math.nan if cell == "?" else parse_number(cell) for cell in cells[2:-1]]
        if None in found or not cells[1].isdigit():
            raise wrong(f"{path}:{number}", "a person's number, then 43 numbers or ?", quoted(line))
        numbers.append(found)
        people.append(int(cells[1]))
        activities.append(cells[-1])
    if not numbers:
        raise wrong(path, "rows after @data", "none")
    return np.array(numbers, dtype=np.float64), np.array(people), activities
