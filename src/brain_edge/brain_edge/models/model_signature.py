# SPDX-License-Identifier: Apache-2.0
"""Statement about a model, and who has signed it: its card and evaluation beside it, a signature over all of it.

The statement holds the digests of the model, its card and its evaluation. So whoever signs it vouches for all three,
and none can be exchanged for another later.
"""
from __future__ import annotations

import hashlib
from typing import Any, Mapping

from brain_edge.blobs.store import PATTERN
from brain_edge.models.model_file import ModelProblem
from brain_edge.schema import FormProblem, check, read_json

FORMAT = 1
CARD, EVALUATION = 100_000, 200_000     # characters
SIGNED = b"brain fleet model\n"         # so that no signature of something else is one of a model

_REGION = {"type": "string", "pattern": "[A-Za-z_][A-Za-z0-9_]*", "maxLength": 80}
_TEXT: dict[str, Any] = {"type": "string", "maxLength": 100_000}
_STATEMENT = {"type": "object", "required": ["format", "digest", "region", "size", "card", "evaluation"],
              "properties": {
    "format": {"const": FORMAT}, "digest": {"type": "string", "pattern": PATTERN}, "region": _REGION,
    "size": {"type": "integer", "minimum": 1}, "card": {"type": "string", "pattern": PATTERN},
    "evaluation": {"type": "string", "pattern": PATTERN}}}
RECORD = {"type": "object", "required": ["statement", "signature", "certificate", "card", "evaluation"], "properties": {
    "statement": {"type": "string", "maxLength": 2000}, "signature": {"type": "string", "maxLength": 2000},
    "certificate": {"type": "string", "maxLength": 20_000}, "card": {**_TEXT, "maxLength": CARD},
    "evaluation": {**_TEXT, "maxLength": EVALUATION}}}
"""What goes with a model: texts. An empty signature: it is not signed."""


def text_digest(text: str) -> str:
    """Digest of a text, as the statement has those of the card and the evaluation."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


def read_statement(record: Any, authority: bytes | None) -> tuple[Mapping[str, Any], str]:
    """Checks a record; returns what it states, and who has signed it; empty where nobody had to.

    Args:
        record: of whoever sent it.
        authority: of the fleet; None: it has no keys, so there is nothing that a signature could be checked against.

    Raises:
        ModelProblem: it does not read, the card or the evaluation is another, or nobody vouches for it who may.
    """
    try:
        check(record, RECORD)
        found = read_json(record["statement"], 2000)
        check(found, _STATEMENT)
    except FormProblem as problem:
        raise ModelProblem(f"what is said of the model does not read: {problem}") from None
    for what in ("card", "evaluation"):
        if text_digest(record[what]) != found[what]:
            raise ModelProblem(f"the {what} of model {found['digest'][:19]} is another than the one that was signed")
    if authority is None:
        return found, ""
    if not record["signature"]:
        raise ModelProblem(f"model {found['digest'][:19]} is not signed, and this fleet has keys: an operator adds it "
                           f"with `brain fleet models add FILE --secure FOLDER`")
    from brain_security.signing import Signature, SigningProblem, signer  # a robot without keys needs no cryptography

    try:
        return found, signer(SIGNED + record["statement"].encode("utf-8"),
                             Signature(record["signature"], record["certificate"]), authority)
    except SigningProblem as problem:
        raise ModelProblem(f"model {found['digest'][:19]}: {problem}") from None
