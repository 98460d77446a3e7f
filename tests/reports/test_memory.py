"""Clients that report again and again of what they remember."""

import numpy as np
import pytest

from jaxdp.randomizers import KRR, Memoised, Rappor
from jaxdp.reports import Aggregate, Client, Collection
from tests.stats import check_multinomial, must_fail

SPEC = Memoised(KRR(3, 1.0), KRR(3, 2.0))
COLLECTION = Collection(SPEC, ("a", "b", "c"))
DOCUMENT = COLLECTION.to_json()


def counted(client: Client, value: str, number: int) -> np.ndarray:
    aggregate = Aggregate(COLLECTION)
    assert aggregate.add(client.report(value) for _ in range(number)).accepted == number
    return aggregate.tally.numpy()


def test_reports_of_one_user_are_of_one_permanent_report():
    memory: dict[str, str] = {}
    found = counted(Client(DOCUMENT, memory), "b", 2000)
    again = counted(Client(DOCUMENT, memory), "b", 2000)  # after a restart
    ((name, held),) = memory.items()
    assert name == f"{COLLECTION.fingerprint.hex()} 01000000"
    word = np.frombuffer(bytes.fromhex(held), "<u4")
    remembered = int(SPEC.permanent.built.from_bits(word.astype(np.uint32), np.array(1)))
    law = [float(p) for p in KRR(3, 2.0).channel()[remembered]]
    check_multinomial(found + again, law)
    check_multinomial(again, law)
    # A client that forgot would send the law of one report.
    must_fail(check_multinomial, found, [float(p) for p in SPEC.channel()[1]])


def test_users_of_one_report_each_have_the_law_of_one_report():
    found = Aggregate(COLLECTION)
    found.add(Client(DOCUMENT, {}).report("b") for _ in range(6000))
    law = [float(p) for p in SPEC.channel()[1]]
    check_multinomial(found.tally.numpy(), law)
    must_fail(check_multinomial, found.tally.numpy(), law[1:] + law[:1])
    many = Aggregate(COLLECTION)
    many.add(Client(DOCUMENT, {}).reports(["b"] * 6000))
    check_multinomial(many.tally.numpy(), law)


def test_values_and_collections_are_remembered_apart():
    memory: dict[str, str] = {}
    Client(DOCUMENT, memory).report("a")
    Client(DOCUMENT, memory).report("c")
    Client(Collection(SPEC, ("a", "b", "c"), "another").to_json(), memory).report("c")
    assert len(memory) == 3
    assert len(set(memory.values())) == 3


def test_a_filter_is_remembered():
    spec = Rappor(4, 3.0, num_bits=64, p=0.0, q=1.0)
    client = Client(Collection(spec).to_json(), memory := {})
    assert len({client.report(2) for _ in range(20)}) == 1  # all of the permanent bits
    assert len({client.report(value) for value in range(4)}) == 4
    assert len(memory) == 4
    assert len(next(iter(memory.values()))) == 8 * spec.built.permanent_words


def test_a_memory_is_asked_for_and_checked():
    with pytest.raises(ValueError, match="memory must be a mapping that outlives the process"):
        Client(DOCUMENT)
    memory: dict[str, str] = {}
    Client(DOCUMENT, memory).report("a")
    name = next(iter(memory))
    memory[name] = memory[name][:-2]
    with pytest.raises(ValueError, match="memory holds 3 bytes for this value in place of 4"):
        Client(DOCUMENT, memory).report("a")
    plain: dict[str, str] = {}
    Client(Collection(KRR(2, 1.0)).to_json(), plain).report(1)
    assert not plain
