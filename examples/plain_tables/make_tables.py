"""Makes the rows of three plain tables: a bank's clients, a hospital's stays and a telephone company's customers.

The same seed gives the same rows. Each label follows from about six of the columns and from chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

#: One day, for columns of dates.
_DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class PlainTable:
    """A plain table: its name, the label, how many rows it has here, and what makes them from a seed."""

    name: str
    label: str
    rows: int
    make: Callable[[int, int], pd.DataFrame]


def clients(rows: int, seed: int) -> pd.DataFrame:
    """Return a bank's clients: 20 columns, the label `subscribed` is 0 or 1."""
    draw = np.random.default_rng([1, seed])
    age = np.clip(draw.gamma(9, 4.7, rows), 18, 95).round().astype(int)
    job = _words(draw, rows, {"clerk": 8, "worker": 7, "manager": 5, "technician": 6, "retired": 4, "student": 2,
                              "self-employed": 3, "unemployed": 1, "services": 4})  # fmt: skip
    income = (draw.lognormal(7.7, 0.5, rows) * np.where(job == "manager", 1.6, 1)).round(2)
    balance = (draw.normal(0, 1, rows) * income * 1.5 + income).round(2)
    channel = _words(draw, rows, {"mobile": 6, "phone": 3, "branch": 2})
    previous = _words(draw, rows, {"none": 8, "failure": 2, "success": 1})
    calls = draw.poisson(2, rows) + 1
    seconds = draw.gamma(1.6, 170, rows).round().astype(int)
    housing, loan = draw.random(rows) < 0.55, draw.random(rows) < 0.16
    risk = (
        1.7 * (previous == "success") + 0.9 * np.isin(job, ["retired", "student"]) + 0.0045 * (seconds - 270)
        + 0.25 * np.tanh(balance / 4000) - 0.8 * housing - 0.3 * (calls - 3) - 0.9 * (channel == "phone") - 0.4
    )  # fmt: skip
    return pd.DataFrame(
        {
            "client_id": 10_000_000 + draw.permutation(rows),
            "age": age,
            "job": job,
            "marital": _words(draw, rows, {"married": 6, "single": 3, "divorced": 1}),
            "education": _words(draw, rows, {"primary": 2, "secondary": 5, "tertiary": 3}),
            "income": income,
            "balance": balance,
            "region": _words(draw, rows, {f"R{number:02}": 1 + number % 4 for number in range(1, 17)}),
            "housing_loan": np.where(housing, "owned", "none"),
            "personal_loan": np.where(loan, "open", "none"),
            "channel": channel,
            "client_since": _dates(draw, rows, "1995-01-01", 9500),
            "last_contact": _dates(draw, rows, "2024-01-01", 540),
            "last_call_seconds": seconds,
            "calls": calls,
            "days_since_campaign": draw.integers(0, 900, rows),
            "previous_outcome": previous,
            "cards": draw.integers(0, 5, rows),
            "branch_distance_km": draw.exponential(6, rows).round(1),
            "subscribed": _drawn(draw, risk).astype(int),
        }
    )


def stays(rows: int, seed: int) -> pd.DataFrame:
    """Return a hospital's stays: 24 columns, of which seven are yes or no; so is the label `readmitted`."""
    draw = np.random.default_rng([2, seed])
    age = np.clip(draw.normal(61, 18, rows), 0, 104).round().astype(int)
    days = np.maximum(1, draw.gamma(1.5, 3.4, rows).round()).astype(int)
    admitted = _dates(draw, rows, "2022-01-01", 1000)
    earlier = draw.poisson(0.9, rows)
    diagnosis = _words(draw, rows, {"I50": 5, "J18": 5, "N39": 3, "I21": 3, "S72": 3, "K57": 2, "E11": 4, "J44": 4,
                                    "A41": 2, "C34": 1})  # fmt: skip
    creatinine = draw.lognormal(0.05, 0.4, rows).round(2)
    flags = {name: draw.random(rows) < share for name, share in
             {"diabetic": 0.28, "smoker": 0.22, "hypertension": 0.5, "insulin": 0.14, "surgery": 0.31,
              "lives_alone": 0.33}.items()}  # fmt: skip
    risk = (
        0.55 * earlier + 0.9 * np.isin(diagnosis, ["I50", "J44"]) + 0.6 * flags["lives_alone"] + 0.06 * (days - 5)
        + 0.9 * np.log(creatinine) + 0.7 * flags["diabetic"] + 0.015 * (age - 60) - 1.5
    )  # fmt: skip
    words = {name: np.where(flag, "yes", "no") for name, flag in flags.items()}
    return pd.DataFrame(
        {
            "stay_id": np.arange(1, rows + 1),
            "admitted": admitted,
            "discharged": admitted + days * _DAY,
            "age": age,
            "sex": _words(draw, rows, {"female": 52, "male": 48}),
            "ward": _words(draw, rows, {"medicine": 6, "surgery": 4, "cardiology": 3, "geriatrics": 2, "intensive": 1}),
            "diagnosis": diagnosis,
            "admission": _words(draw, rows, {"emergency": 6, "planned": 3, "transfer": 1}),
            "insurance": _words(draw, rows, {"public": 8, "private": 2}),
            "days": days,
            "earlier_stays": earlier,
            "medicines": draw.poisson(7, rows),
            "lab_tests": draw.poisson(38, rows),
            "creatinine": creatinine,
            "haemoglobin": draw.normal(13.1, 1.9, rows).round(1),
            "systolic": draw.normal(132, 19, rows).round().astype(int),
            "bmi": np.clip(draw.normal(27, 5, rows), 12, 70).round(1),
            **words,
            "readmitted": np.where(_drawn(draw, risk), "yes", "no"),
        }
    )


def customers(rows: int, seed: int) -> pd.DataFrame:
    """Return a telephone company's customers: 22 columns, the label `risk` is low, medium or high."""
    draw = np.random.default_rng([3, seed])
    months = np.minimum(draw.exponential(26, rows), 120).round().astype(int)
    contract = _words(draw, rows, {"monthly": 55, "one year": 22, "two years": 23})
    monthly = (draw.gamma(6, 10, rows) + 10).round(2)
    internet = _words(draw, rows, {"fiber": 44, "dsl": 34, "none": 22})
    complaints = draw.poisson(0.5, rows)
    payment = _words(draw, rows, {"transfer": 22, "card": 21, "cheque": 34, "invoice": 23})
    risk = (
        1.6 * (contract == "monthly") + 0.9 * (internet == "fiber") + 0.6 * complaints + 0.012 * (monthly - 70)
        - 0.045 * (months - 26) + 0.5 * (payment == "cheque") - 1.6 + draw.logistic(0, 0.9, rows)
    )  # fmt: skip
    return pd.DataFrame(
        {
            "customer_id": [f"C-{number:07}" for number in draw.permutation(rows) * 13 + 5],
            "signed": _dates(draw, rows, "2014-01-01", 3900),
            "months": months,
            "gender": _words(draw, rows, {"female": 1, "male": 1}),
            "age_group": _words(draw, rows, {"18-29": 3, "30-44": 4, "45-64": 4, "65+": 2}),
            "town": _words(draw, rows, {f"town {number:02}": 1 for number in range(40)}),
            "contract": contract,
            "internet": internet,
            "phone_lines": draw.integers(0, 4, rows),
            "payment": payment,
            "paperless": _words(draw, rows, {"paper": 4, "paperless": 6}),
            "monthly_charge": monthly,
            "total_charge": (monthly * months).round(2),
            "data_gb": draw.lognormal(2.6, 1.0, rows).round(1),
            "call_minutes": draw.gamma(2, 110, rows).round().astype(int),
            "roaming_minutes": draw.negative_binomial(1, 0.06, rows),
            "night_share": draw.beta(2, 5, rows).round(3),
            "complaints": complaints,
            "late_payments": draw.poisson(0.7, rows),
            "discount": draw.normal(0, 5, rows).round(1),
            "last_order": _dates(draw, rows, "2023-06-01", 700),
            "risk": np.select([risk < -1, risk < 1], ["low", "medium"], "high"),
        }
    )


TABLES = (
    PlainTable("clients", "subscribed", 30_000, clients),
    PlainTable("stays", "readmitted", 40_000, stays),
    PlainTable("customers", "risk", 25_000, customers),
)


def _words(draw: np.random.Generator, rows: int, weights: Mapping[str, float]) -> np.ndarray:
    """Return words drawn by their weights."""
    shares = np.array(list(weights.values()), dtype=float)
    return draw.choice(np.array(list(weights)), rows, p=shares / shares.sum())


def _dates(draw: np.random.Generator, rows: int, first: str, days: int) -> np.ndarray:
    """Return days drawn from a range."""
    return np.datetime64(first, "D") + draw.integers(0, days, rows) * _DAY


def _drawn(draw: np.random.Generator, risk: np.ndarray) -> np.ndarray:
    """Return whether each row has the label, drawn by its log-odds."""
    return draw.random(len(risk)) < 1 / (1 + np.exp(-risk))
