"""Variants of DROM: neutral ones are DROM; the others against their equations, written out for dense rows."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from helpers import random_streams

from drom_net.algorithms.drom import DromParameters, drom
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import run_reference
from reproduction.variants import VariantParameters, variant

Q = DromParameters(eta0=3.0, lam=0.2, rho=0.4, p=0.8, xi=2.0, solver="gram")
LENGTHS = [30, 22, 30]


def of(**changes: object) -> VariantParameters:
    return VariantParameters(**{**dataclasses.asdict(Q), **changes})  # type: ignore[arg-type]


def test_with_all_neutral_it_is_drom_to_the_bit() -> None:
    streams = random_streams(LENGTHS, flip=0.1)
    one, other = (run_reference(a, streams, seed=0) for a in (variant(of()), drom(Q)))
    assert one.task_records == other.task_records
    assert one.central_records == other.central_records
    assert [task.model["w"].tobytes() for task in one.tasks] == [task.model["w"].tobytes() for task in other.tasks]


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("optimistic", [False, True])
@pytest.mark.parametrize("powers", [(0.0, 0.0), (0.3, -0.2)])
def test_a_variant_is_its_equation(averaged: bool, optimistic: bool, powers: tuple[float, float]) -> None:
    q = of(
        iterate="averaged" if averaged else "last",
        optimistic=optimistic,
        lam_power=powers[0],
        rho_power=powers[1],
    )
    streams = random_streams(LENGTHS, flip=0.1)
    m = len(streams)
    W, A, R, mean = np.zeros((m, 7)), np.zeros((m, 7)), np.zeros((m, 7)), np.zeros((m, 7))
    last_ascent, last_descent, steps = np.zeros((m, 7)), np.zeros((m, 7)), np.zeros(m)
    told: list[list[float]] = [[] for _ in streams]
    for t in range(1, max(LENGTHS) + 1):
        eta, lam, rho = q.eta0 / math.sqrt(t), q.lam * t ** powers[0], q.rho * t ** powers[1]
        pushed = []
        for i, stream in enumerate(streams):
            if t > stream.num_examples:
                continue
            x, y = stream.rows[t - 1], stream.labels[t - 1]  # type: ignore[index]
            told[i].append((mean if averaged else W)[i] @ x)
            z = y * (W[i] @ x)
            f = math.log1p(math.exp(-z))
            if f**q.p > q.xi:
                continue
            gamma = min(q.p * f ** (q.p - 1.0), q.kappa)
            ascent = lam * W[i] - rho * R[i]
            A[i] = A[i] + eta * (2.0 * ascent - last_ascent[i] if optimistic else ascent)
            descent = lam * A[i]
            slope = -gamma * y / (1.0 + math.exp(z))
            W[i] = W[i] - eta * ((2.0 * descent - last_descent[i] if optimistic else descent) + slope * x)
            last_ascent[i], last_descent[i] = ascent, descent
            steps[i] += 1
            mean[i] += (W[i] - mean[i]) / steps[i]
            pushed.append(i)
        U, S, Vt = np.linalg.svd(A)
        R[pushed] = np.outer(U[:, 0], Vt[0])[pushed] if S[0] > 1.0 else 0.0
    result = run_reference(variant(q), streams, seed=0)
    for records, expected in zip(result.task_records, told, strict=True):
        np.testing.assert_allclose(np.frombuffer(records, dtype=TASK_DTYPE)["score"], expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        [task.model["w"] for task in result.tasks], mean if averaged else W, rtol=1e-7, atol=1e-9
    )
