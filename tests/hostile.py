"""Names and values that break careless SQL, shells, templates, terminals and paths.

    from tests.hostile import HOSTILE

Each is valid text: no NUL, no lone surrogate, not empty. All are different, even when letter case does not count.
"""

from __future__ import annotations

_INJECTION = r"""
'; DROP TABLE people; --
'); DROP TABLE people; --
"; DROP TABLE people; --
"); DROP TABLE people; --
'); DELETE FROM dpsql.entry; --
' OR '1'='1
' OR 1=1 --
" OR ""="
1; SELECT * FROM people
x' UNION SELECT * FROM people --
x" UNION SELECT secret FROM people --
') UNION ALL SELECT NULL, NULL --
'||(SELECT secret FROM people)||'
1) OR (1=1
1' AND SLEEP(5) --
'; ATTACH 'stolen.db'; --
'; COPY people TO '/tmp/stolen.csv'; --
'; INSTALL httpfs; LOAD httpfs; --
'; SET enable_external_access = true; --
'; UPDATE dpsql.budget SET spent = 0; --
'; CREATE OR REPLACE TABLE people AS SELECT 1; --
a'); SELECT read_text('/etc/passwd'); --
\'; DROP TABLE people; --
\"; DROP TABLE people; --
name"; --
name' --
name" AS "other
"."
"a"."b"
main.people
dpsql.entry
people; VACUUM
CASE WHEN 1 THEN 2 END
COUNT(*)
CAST(x AS INT)
x::INTEGER
(SELECT 1)
(
)
((
))
[1]
{'a': 1}
*
people.*
EXCLUDE (x)
?
?1
$1
$name
:name
@name
@@version
%s
%d%n
%(name)s
%%
{}
{0}
{name}
{0.__class__}
{{7*7}}
{{ config }}
{% raw %}
{# note #}
${7*7}
#{7*7}
<%= 7*7 %>
"""

_QUOTES = r"""
'
''
'''
"
""
\"""
`
``
`name`
'single'
"double"
it's
say "hi"
'"'
"'"
[brackets]
«guillemets»
„low quotes“
‘curly’
“curly”
´
＇fullwidth＇
＂fullwidth＂
ʼ
′prime′
$$
$$dollar$$
$tag$dollar$tag$
E'escape\n'
U&'\0041'
U&"\0041"
X'41'
b'01'
q'[oracle]'
\
\\
\\\
\'
\\'
\n
\x00
\u0027
trailing\
a\b
c:\temp\new
"""

_COMMENTS = r"""
--
-- comment
x--y
#
# comment
/*
*/
/* comment */
/*/**/*/
x/*y
//
<!--
-->
;
;;
a;b
REM x
"""

_WORDS = """
select FROM Where group order table column null true false none nan inf -inf infinity default user index union
end case when then else join cross natural using qualify window rows range row limit offset values with
recursive create drop alter grant analyze pivot lambda asof interval timestamp date integer varchar
current_date current_user rowid _rowid_ ctid oid class ticket node leaf label cell axis axes word word_0
word_1 shift child plane_0 level_0 level_1 depth_1 packed chosen turn start roots split cells dpsql
dpsql_batch main temp system information_schema duckdb_tables sqlite_master pg_catalog __index_level_0__
"""

_SHAPES = r"""
a b
NULL NULL
primary key
a.b
a.b.c
.
..
...
a,b
a=b
a+b
a-b
-1
+1
0
00
1
1e9
0x41
1st
2fast
3.14
1_000
-
_
__
__class__
a/b
a|b
a&b
a^b
a~b
a!b
a?b
a>b
a<b
<script>alert(1)</script>
<b>
&amp;
&#39;
javascript:alert(1)
=1+1
+cmd|' /C calc'!A0
@SUM(1+1)
key: value
- item
[section]
{"json": true}
{"json": "it's"}
!!python/object
&anchor
*alias
|
>
~
|-
%YAML
---
"""

_SHELL = r"""
$(id)
`id`
; id
| id
&& id
> /tmp/stolen
< /etc/passwd
$HOME
~root
!history
*.csv
--help
--db=other.duckdb
-rf
../../etc/passwd
..\..\windows\system32
/etc/passwd
/dev/null
file:///etc/passwd
http://example.invalid/x.csv
s3://bucket/x.parquet
data.csv
data.parquet
x.duckdb
md:my_db
:memory:
CON
aux.txt
"""

_UNICODE = [
    "é",
    "e\u0301",  # the same letter, composed of two characters
    "ñandú",
    "straße",
    "ÅNGSTRÖM",
    "İstanbul",
    "ıspanak",
    "ﬁ",
    "ǅ",
    "Ω",
    "имя",
    "όνομα",
    "名前",
    "이름",
    "ชื่อ",
    "नाम",
    "שם",
    "اسم",
    "abc שם 123",
    "\u202egnidaer\u202c",  # reads backwards
    "\u2066isolated\u2069",
    "\u200fright\u200e",
    "zero\u200bwidth",
    "join\u200der",
    "soft\u00adhyphen",
    "\ufeffmark",
    "word\u2060joiner",
    "no\u00a0break",
    "thin\u2009space",
    "ideographic\u3000space",
    "line\u2028separator",
    "paragraph\u2029separator",
    "next\u0085line",
    "Z͑ͫ̓a̴l̷g̶o̸",
    "😀",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🇪🇺",
    "👍🏽",
    "1️⃣",
    "𝕬𝖇𝖈",
    "𠜎𠜱",
    "\U0010ffff",
    "\ufffd",
    "\uffff",
    "\ue000",
    "ｓｅｌｅｃｔ",
    "раураl",
    "−1",
    "１２３",
    "٤٥٦",
    "½",
    "∞",
    "ª",
    "…",
]

_SPACE = [
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\x0b",
    "\x0c",
    "\u00a0",
    "\u200b",
    "\u3000",
    " leading",
    "trailing ",
    "two  spaces",
    "tab\there",
    "line\nbreak",
    "carriage\rreturn",
    "both\r\nbreak",
    "-- comment\nSELECT 1",
    "quote'\nbreak",
    'quote"\nbreak',
    "\x01",
    "\x07bell",
    "\x08backspace",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1a",
    "\x7f",
]

_LONG = [
    "n" * 64,
    "p" * 129,
    "q" * 255,
    "x" * 1000,
    "'" * 500,
    '"' * 500,
    "\\" * 333,
    "(" * 200,
    "é" * 400,
    "😀" * 250,
    "a b " * 200,
    "; DROP TABLE people" * 40,
]


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


HOSTILE: list[str] = [
    *_lines(_INJECTION),
    *_lines(_QUOTES),
    *_lines(_COMMENTS),
    *_WORDS.split(),
    *_lines(_SHAPES),
    *_lines(_SHELL),
    *_UNICODE,
    *_SPACE,
    *_LONG,
]
