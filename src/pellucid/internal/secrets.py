"""No password in any text that can be read: `redact` takes the secrets out of any text; every error goes through it."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "***"

_WORDS = r"password|passwd|passphrase|pwd|secret"
_MORE = r"token|credential|(?:api|access|account|private|session|shared)[_.-]?key|jaas[_.-]?config|signature"
_QUOTED = r"'(?:\\.|''|[^'\\])*'?|\"(?:\\.|[^\"\\])*\"?"
# user:secret@ of a URL; a secret may hold anything, also what should have been encoded.  host:5432/… without an @ is
# none.
_USERINFO = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*://[^\s:/?#@'\"]*):(?!\d{1,5}(?:[/?#,;\s)][^@\s]*)?(?:\s|$))((?:(?!://)[^\n])*)@"
)
_KEYWORD = re.compile(rf"(?i)((?:(?<=[^\w.?&;-])|^)[\w.-]*(?:{_WORDS})[\w.-]*)(\s*=\s*)({_QUOTED}|[^\s&;,'\")\]}}]+)")
_QUERY = re.compile(rf"(?i)([?&;][\w.%-]*(?:{_WORDS}|{_MORE}|key|sig|sas)=)([^&;#\s'\"]+)")
_ENTRY = re.compile(rf"(?i)((['\"])[\w.-]*(?:{_WORDS}|{_MORE})[\w.-]*\2\s*:\s*)({_QUOTED})")


def redact(text: str) -> str:
    """A text without the secrets of the addresses, keyword lists and options in it.

    >>> redact("--out postgresql://me:S3cret@db/shop?sslpassword=x#t: no; host=db password='a b' user=me")
    '--out postgresql://me:***@db/shop?sslpassword=***#t: no; host=db password=*** user=me'
    >>> redact("{'sasl.username': 'me', 'sasl.password': 'S3cret'} at s3a://bucket/x?token=abc")
    "{'sasl.username': 'me', 'sasl.password': ***} at s3a://bucket/x?token=***"
    """
    if ":" not in text and "=" not in text:
        return text
    text = _USERINFO.sub(rf"\1:{HIDDEN}@", text)
    text = _ENTRY.sub(rf"\1{HIDDEN}", text)
    text = _QUERY.sub(rf"\1{HIDDEN}", text)
    return _KEYWORD.sub(rf"\1\2{HIDDEN}", text)


def is_secret(option: str) -> bool:
    """Whether the value of an option of this name must not be seen.

    >>> is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("sasl.password"), is_secret("spark.master")
    (True, True, False)
    """
    return re.search(rf"(?i){_WORDS}|{_MORE}", option) is not None


def in_text(text: str) -> set[str]:
    """The secrets that can be told by their place.

    >>> sorted(in_text("postgresql://me:S3cret@db/shop?sslpassword=x"))
    ['S3cret', 'x']
    """
    found = {m[2] for m in _USERINFO.finditer(text)} | {m[2] for m in _QUERY.finditer(text)}
    return found | {m[3].strip("'\"") for m in _KEYWORD.finditer(text)}


def without(text: str, secrets: Iterable[str]) -> str:
    """A text without these very secrets, and without those that can be told by their place.

    >>> without("the broker said S3cret is wrong for password=x", ["S3cret"])
    'the broker said *** is wrong for password=***'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        text = (
            text.replace(secret, HIDDEN)
            if len(secret) > 3
            else re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
        )
    return redact(text)
