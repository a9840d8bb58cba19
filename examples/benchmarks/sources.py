"""Where the public tables come from: the address, licence and checksum of each original, and how it becomes rows.

A checksum stands here where several public projects record the same one for the file. Of the others the first
download is trusted: `download.py` writes its checksum into a lock file and refuses every other content from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

import numpy as np
import pandas as pd

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
#: The licence that the UCI repository gives for its tables.
CC_BY = "CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)"
#: How many features LIBSVM's encoding of adult has.
A1A_FEATURES = 123
#: How many outputs, one for each class, stand behind the 16 bits of a clave.
CLAVE_BITS = 16
CLAVES = ("neutral", "reverse_clave", "forward_clave", "incoherent")
#: Heart: values of `thal` in the original and the numbers that stand for them.
THAL = {3: 0, 6: 1, 7: 2}
HEART = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal",
)  # fmt: skip


@dataclass(frozen=True)
class Original:
    """A file to download; `sha256` is None where no checksum is known."""

    file: str
    base: str = UCI
    sha256: str | None = None

    @property
    def url(self) -> str:
        """Its own address."""
        return self.base + self.file


@dataclass(frozen=True)
class Recipe:
    """A table: its originals, their licence and page, and how their texts become rows under the schema's columns.

    `read` takes the texts in the order of `originals`, and the names of all columns in the order of the file.
    """

    originals: tuple[Original, ...]
    page: str
    read: Callable[[Sequence[str], Sequence[str]], pd.DataFrame]
    licence: str = CC_BY
    label_first: bool = False


def comma_separated(texts: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows of files of values between commas, `?` as NULL.

    >>> comma_separated(["a, 1\\n?, 2\\n\\n"], ["x", "y"]).to_dict("list")
    {'x': ['a', nan], 'y': [1, 2]}
    """
    frames = [
        pd.read_csv(
            StringIO(text),
            header=None,
            names=list(columns),
            na_values="?",
            keep_default_na=False,
            skipinitialspace=True,
        )
        for text in texts
    ]
    return pd.concat(frames, ignore_index=True)


def adult_test(texts: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows of adult.test, whose first line is a remark and whose labels end with a dot."""
    rows = comma_separated([text.partition("\n")[2] for text in texts], columns)
    return rows.assign(**{columns[-1]: rows[columns[-1]].str.removesuffix(".")})


def claves(texts: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return 16 bits and a class: the first of four outputs that is 1; `incoherent` where none is.

    Four lines of the file have no output or two, and 13 end with a remark, which is read past.
    """
    lines = [re.findall(r"\b[01]\b", line) for text in texts for line in text.splitlines() if line.strip()]
    bits = np.array([line[: CLAVE_BITS + len(CLAVES)] for line in lines], dtype=np.int64)
    outputs = bits[:, CLAVE_BITS:]
    classes = np.where(outputs.any(axis=1), outputs.argmax(axis=1), len(CLAVES) - 1)
    frame = pd.DataFrame(bits[:, :CLAVE_BITS], columns=list(columns[:-1]))
    return frame.assign(**{columns[-1]: np.array(CLAVES, object)[classes]})


def cleveland(texts: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return the complete rows of the Cleveland heart data, categories counted from 0, and whether there is disease."""
    rows = comma_separated(texts, (*HEART, "num")).dropna().reset_index(drop=True)
    numbers = rows.drop(columns=["oldpeak", "num"]).astype(float).astype(np.int64)
    numbers = numbers.assign(
        cp=numbers.cp - 1, slope=numbers.slope - 1, thal=numbers.thal.map(THAL), oldpeak=rows.oldpeak
    )
    return numbers.assign(**{columns[-1]: (rows.num > 0).astype(np.int64)})[list(columns)]


def libsvm(texts: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return a label and 0 or 1 for each feature, from lines such as `-1 3:1 11:1`."""
    lines = [line.split() for text in texts for line in text.splitlines() if line.strip()]
    bits = np.zeros((len(lines), A1A_FEATURES), np.int64)
    for place, line in enumerate(lines):
        bits[place, [int(pair.partition(":")[0]) - 1 for pair in line[1:]]] = 1
    frame = pd.DataFrame(bits, columns=list(columns[1:]))
    frame.insert(0, columns[0], [int(line[0]) for line in lines])
    return frame


def _uci(page: str, *originals: Original, label_first: bool = False) -> Recipe:
    return Recipe(originals, f"https://archive.ics.uci.edu/dataset/{page}", comma_separated, label_first=label_first)


_ADULT = Original("adult/adult.data", sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d")
_ADULT_TEST = Original("adult/adult.test", sha256="a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05")
_CAR = Original("car/car.data", sha256="b703a9ac69f11e64ce8c223c0a40de4d2e9d769f7fb20be5f8f2e8a619893d83")
_IRIS = Original("iris/iris.data", sha256="6f608b71a7317216319b4d27b4d9bc84e6abd734eda7872b71a458569e2656c0")
_WINE = Original("wine/wine.data", sha256="6be6b1203f3d51df0b553a70e57b8a723cd405683958204f96d23d7cd6aea659")
_PENDIGITS = (Original("pendigits/pendigits.tra"), Original("pendigits/pendigits.tes"))

#: How each table of `schemas.json` is made.
RECIPES: Mapping[str, Recipe] = {
    "adult": _uci("2/adult", _ADULT),
    "adult_test": Recipe((_ADULT_TEST,), "https://archive.ics.uci.edu/dataset/2/adult", adult_test),
    "adult_binary": Recipe(
        (Original("a1a", LIBSVM), Original("a1a.t", LIBSVM)),
        LIBSVM.rpartition("/binary/")[0] + "/binary.html",
        libsvm,
        licence=f"none stated by LIBSVM; an encoding of UCI's adult, which is {CC_BY}",
        label_first=True,
    ),
    "mushroom": _uci("73/mushroom", Original("mushroom/agaricus-lepiota.data"), label_first=True),
    "nursery": _uci("76/nursery", Original("nursery/nursery.data")),
    "car": _uci("19/car+evaluation", _CAR),
    "pendigits": _uci("81/pen+based+recognition+of+handwritten+digits", *_PENDIGITS),
    "pendigits_tra": _uci("81/pen+based+recognition+of+handwritten+digits", _PENDIGITS[0]),
    "magic04": _uci("159/magic+gamma+telescope", Original("magic/magic04.data")),
    "wall_robot": _uci("194/wall+following+robot+navigation+data", Original("00194/sensor_readings_4.data")),
    "votes": _uci("105/congressional+voting+records", Original("voting-records/house-votes-84.data"), label_first=True),
    "claves": Recipe(
        (Original("00324/ClaveVectors_Firm-Teacher_Model.txt"),),
        "https://archive.ics.uci.edu/dataset/324/firm+teacher+clave+direction+classification",
        claves,
    ),
    "iris": _uci("53/iris", _IRIS),
    "wine": _uci("109/wine", _WINE, label_first=True),
    "balance_scale": _uci("12/balance+scale", Original("balance-scale/balance-scale.data"), label_first=True),
    "heart_mrf": Recipe(
        (Original("heart-disease/processed.cleveland.data"),),
        "https://archive.ics.uci.edu/dataset/45/heart+disease",
        cleveland,
    ),
}
