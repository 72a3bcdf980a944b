"""Answers: the best parent among those who have the barcodes that a family may have been."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.asks import quality_sum
from umimill.kernels.families import compare
from umimill.kernels.known import may_agree
from umimill.kernels.queries import needs_payload
from umimill.kernels.score import (
    GROWTH,
    MOST_SCORE,
    MOST_TERM,
    EdgeModel,
    ln_factorial,
    ln_whole,
    score_payload,
    to_unit,
)

TRIED = 64


@inline_kernel
def stands_above(parent: Any, parent_quality: int, query: Any) -> bool:
    """Return whether a family ranks above the one that asks: score.ranks_above."""
    if parent["reads"] != query["reads"]:
        return parent["reads"] > query["reads"]
    if parent_quality != np.int64(query["quality_sum"]):
        return parent_quality > np.int64(query["quality_sum"])
    return parent["key"] < query["child_key"]


@inline_kernel
def score_changes(query: Any, parent: Any, model: EdgeModel) -> int:
    """Return 1024 ln of the rate at which a parent has this child several bases away.

    As score.score_error, but for errors so rare that a parent is not expected to have any.
    """
    few = np.int64(query["reads"])
    many = np.int64(parent["reads"])
    sample = np.int64(query["sample"])
    ways = -ln_factorial(model.log, model.factorial, few)
    if few + many <= GROWTH:
        ways += model.growth[sample, few + many] - model.growth[sample, many]
        ways += model.factorial[few + many] - model.factorial[many]
    else:
        ways += few * ln_whole(model.log, many)
    return to_unit(ways + query["changes"])


@inline_kernel
def first_from(families: Any, start: int, query: Any) -> int:
    """Return the first row from `start` on that does not come before a query's key.

    By ever longer steps: queries are few, and there may be many runs of them.
    """
    step = 1
    while start + step <= families.size and compare(families[start + step - 1], query) < 0:
        start += step
        step *= 2
    stop = min(start + step - 1, families.size)
    while start < stop:
        middle = (start + stop) // 2
        if compare(families[middle], query) < 0:
            start = middle + 1
        else:
            stop = middle
    return start


@kernel
def answer_queries(
    families: Any, quality: Any, queries: Any, model: EdgeModel, answers: Any
) -> int:
    """Find the best parent that each query asks for.

    Args:
        families: FAMILY[n], whole keys, in order.
        quality: u8[n, B].
        queries: QUERY[m], in order.
        model: tables.
        answers: ANSWER[>= m], filled with those that were found.

    Returns:
        Answers.
    """
    count = 0
    start = 0
    for number in range(queries.size):
        query = queries[number]
        start = first_from(families, start, query)
        best = np.int64(-1)
        best_score = np.int64(0)
        best_error = np.int64(0)
        best_payload = np.int64(0)
        best_quality = np.int64(0)
        row = start
        while row < min(start + TRIED, families.size) and compare(families[row], query) == 0:
            # As the filters have it, so that their size changes nothing.
            if needs_payload(
                np.int64(query["changes"]), np.int64(query["independent"])
            ) and not may_agree(query, families[row]):
                row += 1
                continue
            own_quality = quality_sum(quality, row)
            if not stands_above(families[row], own_quality, query):
                row += 1
                continue
            error = min(max(score_changes(query, families[row], model), -MOST_TERM), MOST_TERM)
            payload = score_payload(
                query, query["child_key"], families[row], np.int64(query["sample"]), model
            )
            score = error - np.int64(query["independent"]) + payload
            score = min(max(score, -MOST_SCORE), MOST_SCORE)
            # Families of a key come by reads, so of equals the first has no fewer.
            if (
                best < 0
                or score > best_score
                or (
                    score == best_score
                    and families[row]["reads"] == families[best]["reads"]
                    and own_quality > best_quality
                )
            ):
                best, best_score, best_error, best_payload = row, score, error, payload
                best_quality = own_quality
            row += 1
        if best < 0:
            continue
        answer = answers[count]
        parent = families[best]
        answer["row"] = query["row"]
        answer["asker"] = query["asker"]
        answer["parent_key"] = parent["key"]
        answer["score"] = best_score
        answer["ln_error"] = best_error
        answer["ln_independent"] = query["independent"]
        answer["payload"] = best_payload
        answer["parent_reads"] = parent["reads"]
        answer["parent_family"] = parent["family"]
        answer["parent_quality"] = best_quality
        count += 1
    return count
