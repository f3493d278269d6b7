# SPDX-License-Identifier: Apache-2.0
"""Our types keep their hashes: nodes of another hash silently do not hear ours, so a change raises the minor version.

When one changes on purpose, write the golden file anew: python src/brain_tests/test/test_type_hashes.py
"""
import json
from pathlib import Path

from brain_runtime.share import share_directory
from brain_tests import starts
from brain_wire import messages

GOLDEN = starts.GOLDEN.with_name("types.json")


def hashes() -> dict[str, str]:
    folder = Path(share_directory("brain_interfaces"))
    names = [f"brain_interfaces/msg/{file.stem}" for file in sorted((folder / "msg").glob("*.msg"))]
    names += [f"brain_interfaces/action/{file.stem}_{part}" for file in sorted((folder / "action").glob("*.action"))
              for part in ("Goal", "Result", "Feedback", "SendGoal_Request", "SendGoal_Response", "GetResult_Request",
                           "GetResult_Response", "FeedbackMessage")]
    return {name: messages.type_hash(name) for name in names}


def test_hashes_are_those_of_the_golden_file():
    assert hashes() == json.loads(GOLDEN.read_text())


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(hashes(), indent=1) + "\n")
