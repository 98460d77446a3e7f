"""The fingerprint of a collection: of a text that other languages can write as well."""

import hashlib
import json
import struct

import pytest

from jaxdp.randomizers import KRR
from jaxdp.reports import Aggregate, Client, Collection
from jaxdp.reports._client import canonical, fingerprint_of

# RFC 8785, appendix B, and where the two forms of a number part.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "becbf647612f3696": "-0.0000033333333333333333",
}


@pytest.mark.parametrize("bits", NUMBERS)
def test_numbers_have_the_canonical_form(bits):
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(number) == NUMBERS[bits]


def test_a_document_has_the_canonical_form():
    data = {"b": [1.0, 1, -5, True, False, None], "a": {"ü": '"\\/\n\x1f', "é€😀": 1e-7}}
    text = '{"a":{"é€😀":1e-7,"ü":"\\"\\\\/\\n\\u001f"},"b":[1,1,-5,true,false,null]}'
    assert canonical(data) == text


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 2**53 + 1])
def test_numbers_that_other_languages_cannot_hold_are_refused(number):
    with pytest.raises(ValueError, match=r"number.*finite double"):
        canonical([number])


def test_the_fingerprint_is_of_the_canonical_text():
    document = Collection(KRR(3, 1e-7), labels=("a", "b", "ü😀"), purpose="é").document
    text = canonical({name: part for name, part in document.items() if name != "fingerprint"})
    assert '"epsilon":1e-7' in text
    assert fingerprint_of(document) == hashlib.sha256(text.encode()).digest()[:8]


def test_a_document_that_javascript_wrote_again_is_the_same():
    """`JSON.parse` and `JSON.stringify` have 1 for 1.0, and write letters as they are."""
    collection = Collection(KRR(3, 1.0), labels=("a", "b", "ü"))
    written = canonical(json.loads(collection.to_json()))
    assert '"epsilon":1,' in written
    assert Collection.from_json(written) == collection
    assert Client(written).labels == ("a", "b", "ü")


def test_a_changed_document_is_refused():
    document = Collection(KRR(3, 1.0)).document
    with pytest.raises(ValueError, match="fingerprint"):
        Client(document | {"epsilon": 0.5})


def test_a_collection_keeps_the_document_that_it_was_read_from():
    """Another version of jax may write another program; reports bear the fingerprint of theirs."""
    document = dict(Collection(KRR(5, 1.0)).document)
    program = dict(document["program"])
    one = ["add", "int32", [], [program["outputs"][0]] * 2, {}]
    program["code"] = [*program["code"], one]  # an instruction whose result nothing uses
    document["program"] = program
    document["fingerprint"] = fingerprint_of(document).hex()
    collection = Collection.from_json(json.dumps(document))
    assert collection.fingerprint.hex() == document["fingerprint"]
    assert collection.fingerprint != Collection(KRR(5, 1.0)).fingerprint
    aggregate = Aggregate(collection)
    assert aggregate.add(Client(collection.to_json()).report(2)).accepted == 1


def test_a_document_of_other_reports_is_refused():
    document = dict(Collection(KRR(5, 1.0)).document)
    document["report"] = Collection(KRR(6, 1.0)).document["report"]
    document["fingerprint"] = fingerprint_of(document).hex()
    with pytest.raises(ValueError, match="are not those of this version of jaxdp"):
        Collection.from_json(json.dumps(document))
