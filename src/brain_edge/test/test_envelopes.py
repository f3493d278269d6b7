# SPDX-License-Identifier: Apache-2.0
"""What stands in a delivery and its answer, byte by byte: limits, formats, and what one end leaves out."""
import json
from dataclasses import replace

import pytest

from brain_edge.messages import envelope
from brain_edge.messages.envelope import (
    BODY, TAKEN, WHY, Answer, Entry, Portion, Position, Request, body_text, read_answer, read_request, write_answer,
    write_request)
from brain_edge.schema import FormProblem

A, B = "a" * 16, "b" * 16
REQUEST = Request("robot1", "cloud", A, B, [Portion("plain", Position(4, A), [
    Entry(5, 5, A, "number", '{"x":1}'), Entry(6, 8, B, gone="expired")])])
ANSWER = Answer("cloud", "robot1", A, B)


def again(request):
    return read_request(write_request(request))


def changed(request=REQUEST, **fields):
    """A delivery as another's software could write it."""
    return json.dumps({**json.loads(write_request(request)), **fields}).encode()


def test_a_delivery_comes_as_it_was_written():
    found = again(REQUEST)
    assert replace(found, portions=[]) == replace(REQUEST, portions=[])
    [portion] = found.portions
    assert portion == Portion("plain", Position(4, A), [Entry(5, 5, A, "number", {"x": 1}),
                                                        Entry(6, 8, B, gone="expired")])


def test_a_delivery_of_ours_that_is_as_full_as_it_may_be_is_read():
    body = body_text({"n": [0] * (envelope.BODY_VALUES - 10)})
    count = envelope.BATCH // len(body)
    full = replace(REQUEST, portions=[Portion("plain", Position(), [
        Entry(number, number, A, "number", body) for number in range(1, count + 1)])])
    assert count * (envelope.BODY_VALUES - 10) > 0.98 * envelope.BATCH / 2
    assert len(again(full).portions[0].entries) == count


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_format_has_what_it_knows(number):
    found = again(replace(REQUEST, format=number, installation=A, formats=(1, 3)))
    assert (found.format, found.formats, found.installation) == (
        number, (1, 3) if number >= 2 else None, A if number >= 3 else None)
    answer = read_answer(write_answer(replace(ANSWER, format=number)))
    assert (answer.format, answer.formats) == (number, (1, 3) if number >= 2 else None)


def test_why_an_end_is_apart_is_told_in_500_characters():
    assert again(replace(REQUEST, apart="x" * (WHY + 1))).apart == "x" * WHY
    assert again(REQUEST).apart is None
    assert read_answer(write_answer(replace(ANSWER, apart="x" * (WHY + 1)))).apart == "x" * WHY


@pytest.mark.parametrize("answer", [
    ANSWER, replace(ANSWER, found=True), replace(ANSWER, refused=[("plain", 5, "no")]),
    replace(ANSWER, wait=2.0, why="full"), replace(ANSWER, applied={"plain": Position(3, B)})])
def test_an_answer_comes_as_it_was_written(answer):
    assert read_answer(write_answer(answer)) == answer


def test_a_delivery_has_at_most_1000_messages():
    entries = [Entry(number, number, A, gone="expired") for number in range(1, TAKEN + 2)]
    whole = replace(REQUEST, portions=[Portion("plain", Position(), entries[:-1])])
    assert len(again(whole).portions[0].entries) == TAKEN == 1000
    with pytest.raises(FormProblem, match="it has 1001 messages, and at most 1000 are taken"):
        again(replace(REQUEST, portions=[Portion("plain", Position(), entries)]))


def test_a_body_has_at_most_256_kib():
    assert BODY == 262_144
    room = BODY - len('{"x":""}')
    assert len(body_text({"x": "y" * room})) == BODY
    with pytest.raises(FormProblem, match="a message of 262145 bytes is too large"):
        body_text({"x": "y" * (room + 1)})


@pytest.mark.parametrize(("data", "why"), [
    (changed(format=1, formats=[1, 3]), "it has no field 'formats' in format 1"),
    (changed(format=2, installation=A), "it has no field 'installation' in format 2"),
    (changed(format=2, formats=[3, 3]), "it is of a format that its sender does not read"),
    (changed(format=3, formats=[1, 2]), "it is of a format that its sender does not read"),
    (changed(format=4), "it is of format 4, and this software reads formats 1 to 3: update the software here"),
    (changed(format=0), "formats 1 to 3: update the software where it comes from")])
def test_a_format_that_cannot_be_is_told(data, why):
    with pytest.raises(FormProblem, match=why):
        read_request(data)


@pytest.mark.parametrize("gone", [{"kind": "number"}, {"body": {}}, {"to": 5}])
def test_what_is_gone_has_neither_kind_nor_body_and_ends_behind_its_begin(gone):
    stream = {"stream": "plain", "after": {"seq": 5, "id": A},
              "entries": [{"seq": 6, "id": B, "gone": "expired", **gone}]}
    with pytest.raises(FormProblem, match="message 6 of stream plain is gone, so it has no kind and no body"):
        read_request(changed(streams=[stream]))
    assert read_request(changed(streams=[{**stream, "entries": [{"seq": 6, "id": B, "gone": "expired"}]}])
                        ).portions[0].entries == [Entry(6, 6, B, gone="expired")]


@pytest.mark.parametrize("left_out", ["kind", "body"])
def test_a_message_has_kind_and_body(left_out):
    entry = {"seq": 1, "id": A, "kind": "number", "body": {}}
    del entry[left_out]
    with pytest.raises(FormProblem, match="message 1 of stream plain must have kind and body"):
        read_request(changed(streams=[{"stream": "plain", "after": {"seq": 0, "id": ""}, "entries": [entry]}]))


def test_those_that_are_gone_for_one_reason_are_told_in_one():
    rows = [Entry(1, 1, A, gone="expired"), Entry(2, 3, B, gone="expired"), Entry(4, 4, A, gone="replaced"),
            Entry(5, 5, A, "number", "{}"), Entry(6, 6, B, gone="replaced")]
    assert envelope.gone_in_one(rows) == [Entry(1, 3, B, gone="expired"), *rows[2:]]
