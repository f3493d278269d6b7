# SPDX-License-Identifier: Apache-2.0
"""Signing of models: what is stated of one, with its card and its evaluation, by whoever adds it to the cloud."""
from __future__ import annotations

import json
from pathlib import Path

from brain_edge.models.model_file import ModelProblem
from brain_edge.models.model_signature import CARD, EVALUATION, FORMAT, SIGNED, text_digest


def state(digest: str, region: str, size: int, card: str, evaluation: str, credentials: Path | None) -> dict[str, str]:
    """A record, signed where there are credentials.

    Raises:
        ModelProblem: the card or the evaluation is too long, or cannot be signed.
    """
    for what, text, most in (("card", card, CARD), ("evaluation", evaluation, EVALUATION)):
        if len(text) > most:
            raise ModelProblem(f"the {what} has {len(text)} characters, and at most {most} are taken")
    text = json.dumps({"format": FORMAT, "digest": digest, "region": region, "size": size, "card": text_digest(card),
                       "evaluation": text_digest(evaluation)}, sort_keys=True, ensure_ascii=False)
    signature = certificate = ""
    if credentials is not None:
        from brain_security.signing import SigningProblem, sign

        try:
            signed = sign(credentials, SIGNED + text.encode("utf-8"))
        except SigningProblem as problem:
            raise ModelProblem(str(problem)) from None
        signature, certificate = signed.value, signed.certificate
    return {"statement": text, "signature": signature, "certificate": certificate, "card": card,
            "evaluation": evaluation}
