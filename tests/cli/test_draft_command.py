"""`dpsql schema draft` with its sources, in text and JSON, and what `show` and `train` say of a lookup."""

from __future__ import annotations

from pathlib import Path

from dpsql.schema.schema_file import loads

from .conftest import MARKERS, Cli, kept

CODES = "column,value\nc,a\nc,b\ny,no\ny,yes\n"


def test_json_is_a_list_of_proposals(cli: Cli) -> None:
    """Each column is an object with its role, feature, gaps, alternatives and origin; there is no string of YAML."""
    given = cli("schema", "draft", "--table", "people", "--label", "y", "--json").json
    assert given["table"] == "people"
    by_name = {proposal["column"]: proposal for proposal in given["proposals"]}
    assert by_name["y"]["role"] == "label"
    assert by_name["x"] == {
        "column": "x",
        "role": "feature",
        "feature": {"type": "numeric", "lower": None, "upper": None},
        "gaps": ["lower", "upper"],
        "alternatives": [],
        "origin": None,
        "advice": "write the public bounds; values beyond are clamped",
    }
    assert by_name["note"]["role"] == "identifier"


def test_a_code_book_and_a_sample_fill_the_gaps(cli: Cli) -> None:
    """What the code book does not say comes from the sample, and the file loads back."""
    Path("codes.csv").write_text(CODES)
    Path("sample.csv").write_text("x\n" + "\n".join(map(str, range(60))) + "\n")
    ran = cli(
        "schema", "draft", "--table", "people", "--label", "y", "--dictionary", "codes.csv", "--like", "sample.csv",
        "--to", "people.yml",
    )  # fmt: skip
    assert ran.code == 0
    text = Path("people.yml").read_text()
    assert "x: {type: numeric, lower: 0, upper: 65}  # sample sample.csv" in text
    assert "c: {type: categorical, values: [a, b]}  # code book codes.csv line 2" in text


def test_a_draft_without_gaps_says_so(cli: Cli) -> None:
    """Nothing is left to fill in, and the schema is as drafted."""
    Path("codes.yml").write_text("c: [a, b]\ny: [no, yes]\nx: {min: 0, max: 64}\nperson: [7, 8]\nid: [1, 2]\n")
    ran = cli("schema", "draft", "--table", "fresh", "--label", "y", "--dictionary", "codes.yml", "--to", "fresh.yml")
    assert "It has no gaps." in ran.err
    assert loads(Path("fresh.yml").read_text()).classes == ("no", "yes")


def test_a_lookup_is_told_and_marks_the_model(cli: Cli) -> None:
    """The command says on stderr what was read; train, show and ledger tell it again."""
    flags = ("--label", "y", "--class", "no", "--class", "yes", "--numeric", "x:0:64", "--categorical", "c:a,b")
    ran = cli("schema", "draft", "--table", "fresh", "--label", "y", "--values-are-public", "y")
    assert ran.code == 0
    assert 'The values of "y" were looked up in the rows: ledger entry' in ran.err
    assert cli("register", "--table", "fresh", "--cap", "3", *flags).code == 0
    trained = cli("train", "--table", "fresh", "--name", "marked", "--method", "rdt", "--trees", "2", "--depth", "1")
    assert 'Domains: the values of "y" were looked up in the private rows by the owner' in trained.out
    assert "outside the guarantee" in cli("show", "--model", "marked").out
    assert cli("show", "--model", "marked", "--json").json["certificate"]["looked_up"] == ["y"]
    assert "outside the guarantee" in cli("explain", "--model", "marked").out
    assert "lookup" in cli("ledger", "--table", "fresh").out


def test_refusals_show_no_value_and_change_nothing(cli: Cli, path: Path) -> None:
    """A private sample, a column of free text and a column with rare values are refused with exit codes 2 and 3."""
    before = kept(path)
    for words, code in (
        (("--like", "people"), 2),
        (("--values-are-public", "note"), 2),
        (("--values-are-public", "x"), 2),
        (("--dictionary", "none.csv"), 2),
    ):
        ran = cli("schema", "draft", "--table", "people", *words)
        assert (ran.code, ran.out) == (code, "")
        assert not any(marker in ran.err for marker in MARKERS)
    assert cli("schema", "draft", "--table", "fresh", "--like", "people").code == 3
    assert kept(path) == before
