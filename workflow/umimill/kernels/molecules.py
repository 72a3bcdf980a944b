"""Molecules of a cell: which rows each of them has."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import kernel
from umimill.kernels.families import compare

U = np.uint64


@kernel
def list_molecules(families: Any, fates: Any, molecules: Any) -> int:
    """List the molecules of families in the order of their records.

    Args:
        families: FAMILY[n], whole keys.
        fates: FATE[n].
        molecules: MOLECULE[>= n], zeros; what families and fates say is filled.

    Returns:
        Molecules.
    """
    count = 0
    first = 0
    for row in range(families.size):
        if row > 0 and compare(families[row - 1], families[row]) != 0:
            first = count
        fate = fates[row]
        if fate["moved"] == 1:
            continue
        molecule = molecules[first + np.int64(fate["number"])]
        family = families[row]
        molecule["key"] = family["key"]
        molecule["sample"] = family["sample"]
        molecule["umi_length"] = family["umi_length"]
        molecule["cell_length"] = family["cell_length"]
        molecule["reads"] = fate["reads"]
        molecule["families"] = fate["families"]
        molecule["number"] = fate["number"]
        molecule["several"] = fate["several"]
        molecule["status"] = fate["status"]
        count += 1
    return count


@kernel
def number_rows(family_of: Any, fates: Any, given: Any, numbers: Any) -> None:
    """Say which molecule of its key each row belongs to.

    Args:
        family_of: i64[n], the family row of each row.
        fates: FATE[*].
        given: i64[n], family of a row that was moved here, else -1.
        numbers: i64[n], filled; -1 where the row was moved to another key.
    """
    for row in range(numbers.size):
        fate = fates[family_of[row]]
        numbers[row] = np.int64(fate["number"])
        if fate["moved"] == 1 and given[row] < 0:
            numbers[row] = -1


@kernel
def order_rows(hot: Any, order: Any, numbers: Any, molecules: Any, ordered: Any) -> int:
    """Order the rows of a cell by molecule, and say where each molecule's rows begin.

    Args:
        hot: HOT[n].
        order: i64[n], rows by key.
        numbers: i64[n], from number_rows, by row.
        molecules: MOLECULE[m] of the cell; first, length_1 and length_2 are filled.
        ordered: i64[n], filled.

    Returns:
        Rows ordered, or -1 where a molecule has not as many rows as it says.
    """
    at = np.int64(0)
    for number in range(molecules.size):
        molecules[number]["first"] = at
        at += np.int64(molecules[number]["reads"])
    if at > order.size:
        return -1
    molecule = np.int64(0)
    total = at
    for index in range(order.size):
        row = order[index]
        number = numbers[row]
        if number < 0:
            continue
        while molecule < molecules.size and compare(molecules[molecule], hot[row]) != 0:
            # `first` counted up as rows were placed; the next molecule's stays.
            molecule += 1
        place = molecule + number
        if place >= molecules.size:
            return -1
        entry = molecules[place]
        if compare(entry, hot[row]) != 0 or entry["first"] >= U(total):
            return -1
        ordered[np.int64(entry["first"])] = row
        entry["first"] += U(1)
        entry["length_1"] = max(entry["length_1"], hot[row]["length_1"])
        entry["length_2"] = max(entry["length_2"], hot[row]["length_2"])
    at = np.int64(0)
    for number in range(molecules.size):
        at += np.int64(molecules[number]["reads"])
        if np.int64(molecules[number]["first"]) != at:
            return -1
        molecules[number]["first"] = U(at) - molecules[number]["reads"]
    return at


@kernel
def cut_cells(families: Any, starts: Any, fates: Any, limits: Any, ends: Any) -> int:
    """Cut families into output cells, whole keys each.

    A cell ends behind the key with which it reaches its sample's limit, where a group ends, and
    before a key that reaches the limit alone: so cells depend on the data alone, and only a cell of
    one key has more than twice the limit. Families that were all moved away end no cell.

    Args:
        families: FAMILY[n], whole keys.
        starts: u8[n], 1 where a row is the first of its group.
        fates: FATE[n].
        limits: i64[S], reads.
        ends: i64[> n], filled with the end of each cell.

    Returns:
        Cells.
    """
    count = 0
    cell_reads = np.int64(0)
    cell_start = 0
    start = 0
    while start < families.size:
        stop = start
        own = np.int64(0)
        while stop < families.size and compare(families[start], families[stop]) == 0:
            if fates[stop]["moved"] == 0:
                own += np.int64(fates[stop]["reads"])
            stop += 1
        limit = limits[families[start]["sample"]]
        if start > cell_start and (own >= limit or (cell_reads > 0 and starts[start] == 1)):
            ends[count] = start
            count += 1
            cell_start = start
            cell_reads = np.int64(0)
        cell_reads += own
        if cell_reads >= limit:
            ends[count] = stop
            count += 1
            cell_start = stop
            cell_reads = np.int64(0)
        start = stop
    if families.size > cell_start:
        ends[count] = families.size
        count += 1
    return count


@kernel
def first_unordered(molecules: Any) -> int:
    """Return the first molecule that does not come after the one before it, or -1.

    Args:
        molecules: MOLECULE[n], which should be in the order of (key, number).
    """
    for row in range(1, molecules.size):
        order = compare(molecules[row - 1], molecules[row])
        if order > 0 or (order == 0 and molecules[row]["number"] <= molecules[row - 1]["number"]):
            return row
    return -1
