"""Small valid files of every format, and ways to spoil them. `mutants(ending, count, seed)` gives spoiled files."""

import gzip
import io
import random
import re
import struct
import zipfile
import zlib

import numpy as np

import anytimebp as abp
from anytimebp.formats.npz import write_npz

UAI = b"""MARKOV
4
2 3 1 2
5
1 0
2 0 1
3 1 2 3
0
2 3 0

2
 0.5 1.5
6
 1 2 3
 4 5e-3 0
6
 1 0 1 1 1 2
1
 3.5
4
 1 1
 1 0.25
"""
FG = b"""# a comment
3

1
0
2
2
0 0.3
1 0.7

2
0 4
2 3
4
0 1.5
1 2
3 1e-5
5 7

1
4
3
1
2 1
"""
BIF = b"""network "a net" { property version 1; }
// roots first
variable rain { type discrete [ 2 ] { yes, no }; }
variable grass { type discrete [ 3 ] { "very wet", wet, dry }; property x = 1; }
variable dew { type discrete [2] {a b}; }
probability ( rain ) { table 0.2, 0.8; }
/* and their child */
probability ( grass | rain, dew ) {
  (yes, a) 0.5, 0.3, 0.2;
  (no, b) 0.1 0.2 0.7;
  default 0.3, 0.3, 0.4;
}
probability ( dew  rain ) { table 0.25 0.5 0.75 0.5; }
"""
XMLBIF = b"""<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE BIF [ <!ELEMENT BIF ( NETWORK )*> ]>
<BIF VERSION="0.3"><NETWORK><NAME>n</NAME>
<VARIABLE TYPE="nature"><NAME>rain</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>grass &amp; more</NAME><OUTCOME>wet</OUTCOME><OUTCOME>dry</OUTCOME></VARIABLE>
<DEFINITION><FOR>rain</FOR><TABLE>0.2 0.8</TABLE></DEFINITION>
<DEFINITION><FOR>grass &amp; more</FOR><GIVEN>rain</GIVEN>
<TABLE>0.9 0.1
0.3 0.7</TABLE></DEFINITION>
</NETWORK></BIF>
"""
EVID = b"2 0 1\n3 0\n"
OLD_EVID = b"1\n2 0 1 3 0\n"
JSON_EVID = b'{"x0": 1, "x1": [0, 2]}'
SASCA = b"""NC 4 # states
TABLE t = [0, 3, 2, 1]
VAR SINGLE k
PUB MULTI p
VAR MULTI x
VAR MULTI y
PROPERTY x = k ^ p
PROPERTY f: y = t[x]
PROPERTY y = k + p - x
PROPERTY y = !k
"""
MAR = b"MAR\n2 2 0.25 0.75 3 0.1 0.2 0.7\n"


def npz():
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_variable("weather", ["sun", "rain", 3])
    graph.add_factor([0, 1], log_table=[[0.0, -np.inf], [1.0, 2.0]])
    graph.add_factors([[0], [1]], table=[[1.0, 2.0], [3.0, 4.0]])
    graph.add_factor([0, 2], entries=([[0, 1], [1, 2]], [0.5, -1.0]), default=-2.0)
    graph.add_factors([[0, 2], [1, 2]], structure=abp.Difference([0.5, 1.5], first=-1, default=-1.0))
    graph.add_factor([0, 1, 2], structure=abp.AtMostOne([0, 1, 2]))
    file = io.BytesIO()
    write_npz(graph, file, "x.npz")
    return file.getvalue()


SEEDS = {
    ".uai": [UAI, UAI.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + UAI, b"BAYES 1 2 1 1 0 2 .5 .5"],
    ".fg": [FG],
    ".bif": [BIF],
    ".xmlbif": [XMLBIF],
    ".npz": [npz()],
    ".evid": [EVID, OLD_EVID],
    ".json": [JSON_EVID],
    ".sasca": [SASCA],
    ".MAR": [MAR],
}
ENCODINGS = b"Shift_JIS big5 utf-7 nosuch rot13 idna punycode utf-16 latin-1 ascii mbcs hex".split()
NASTY = [
    *(b"-1 0 1 2 1e999 nan inf -inf 1_0 0x10 1e-400 99999999999999999999999 1000000000000 4611686018427387904".split()),
    *(b"# // /* */ { } ( ) [ ] | , ; \" ' <a> </BIF> &x; MARKOV BAYES table default property variable".split()),
    *[b"\n", b"\r", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", "é".encode(), "\u2028".encode(), b"9" * 5000, b"[" * 3000],
    *[b"900000000", b"<a>" * 200, b"<a b='" + b"x" * 3000, b"//\n" * 2000, b"/**/" * 2000, b"\x1b]0;x\x07", b"0.6 0.6"],
    *[b"<!ATTLIST a b CDATA 'x'>" * 60, b"".join(b"<a%d/>" % k for k in range(1200)), b"0 " * 500],
    *[b"1" + b"0" * 400, b"'''", b"((((", b"\\\n", b"\n   ", b"9L", b"<f8", b"|O", b"decision", b"<NAME>"],
    *[
        b'<!DOCTYPE x [<!ENTITY a "b">]>',
        b'<!DOCTYPE x SYSTEM "x.dtd">',
        b'"\\ud800"',
        b"1e12",
        b"1.5.",
        b"+3",
        b"--",
        b"true",
        b"null",
    ],
]


def mutate(data, rng):
    """Return a file with one to four things wrong."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        data = rng.choice(WAYS)(data, rng)
    return gzip.compress(data, mtime=0) if rng.random() < 0.03 else data


def _place(data, rng):
    return rng.randrange(len(data) + 1)


def _cut(data, rng):
    return data[: _place(data, rng)]


def _flip(data, rng):
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _insert(data, rng):
    place = _place(data, rng)
    return data[:place] + rng.choice((b"", b" ")) + rng.choice(NASTY) + rng.choice((b"", b" ")) + data[place:]


def _replace_word(data, rng):
    words = data.split(b" ")
    words[rng.randrange(len(words))] = rng.choice(NASTY)
    return b" ".join(words)


def _drop_line(data, rng):
    lines = data.split(b"\n")
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


def _repeat_part(data, rng):
    low, high = sorted((_place(data, rng), _place(data, rng)))
    return data[:high] + data[low:high] * rng.choice((1, 2, 50)) + data[high:]


def _swap_number(data, rng):
    digits = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
    if not digits:
        return data
    place = rng.choice(digits)
    return data[:place] + str(rng.choice((0, 1, 2, 3, 7, 63, 10**6, 10**12, 2**63))).encode() + data[place + 1 :]


def _respell_encoding(data, rng):
    return data.replace(b'"utf-8"', b'"' + rng.choice(ENCODINGS) + b'"') if b'"utf-8"' in data else _insert(data, rng)


def _spoil_member(data, rng):
    """Spoil one file of an archive, whose checksum stays right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, RuntimeError, zlib.error, struct.error):
        return _insert(data, rng)
    name = rng.choice(["header.npy", *members])
    content = members.get(name, b"")
    if name == "header.npy" and rng.random() < 0.7:  # JSON, in an array that has its length
        members[name] = _array_file(_spoil_word(content[128:], rng))
    else:
        members[name] = content[:10] + _overwrite(content[10:128], rng) + content[128:]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def _array_file(data):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.frombuffer(data, dtype=np.uint8))
    return file.getvalue()


def _spoil_word(data, rng):
    """Put something nasty in place of a value."""
    words = [match.span() for match in re.finditer(rb'"\w*"|[\w.-]+|\[.*?\]', data)]
    start, end = rng.choice(words or [(0, 0)])
    return data[:start] + rng.choice(NASTY) + data[end:]


def _overwrite(data, rng):
    """Write something nasty over a text, whose length stays."""
    start = _place(data.rstrip(), rng)
    return (data[:start] + rng.choice(NASTY) + data[start + len(rng.choice(NASTY)) :])[: len(data)].ljust(len(data))


def _noise(data, rng):
    return rng.randbytes(rng.randrange(200))


WAYS = (
    _cut,
    _flip,
    _insert,
    _replace_word,
    _drop_line,
    _repeat_part,
    _swap_number,
    _swap_number,
    _insert,
    _flip,
    _noise,
    _respell_encoding,
    _spoil_member,
    _spoil_member,
)


def mutants(ending, count, seed):
    """Give spoiled files of a format."""
    rng = random.Random(f"{ending} {seed}")
    for _ in range(count):
        yield mutate(rng.choice(SEEDS[ending]), rng)
