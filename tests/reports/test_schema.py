"""The published schema of a collection's document."""

import copy
import json

import jsonschema
import pytest

from jaxdp.reports._interpreter import DTYPES, OPERATIONS
from tests.reports.test_vectors import FOLDER

SCHEMA = json.loads((FOLDER.parent / "collection.schema.json").read_text(encoding="utf-8"))
DOCUMENTS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))["collection"]
    for path in sorted(FOLDER.glob("*.json"))
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_follow_the_schema(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(DOCUMENTS[name], SCHEMA)


def test_all_operations_and_dtypes_are_named():
    definitions = SCHEMA["$defs"]
    code = definitions["program"]["properties"]["code"]["items"]["prefixItems"]
    assert code[0]["enum"] == sorted(OPERATIONS)
    assert definitions["dtype"]["enum"] == sorted(DTYPES)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("purpose"),
        lambda d: d.update(jaxdp_collection=2),
        lambda d: d.update(fingerprint="0" * 15 + "G"),
        lambda d: d.update(labels=["a", "a"]),
        lambda d: d.update(epsilon="1"),
        lambda d: d.update(comment="more"),
        lambda d: d["report"].pop("low"),
        lambda d: d["program"]["code"][0].__setitem__(0, "import"),
        lambda d: d["program"]["code"][0].pop(),
        lambda d: d["program"]["inputs"][0].__setitem__(0, "float64"),
    ],
)
def test_other_documents_are_refused(change):
    changed = copy.deepcopy(DOCUMENTS["krr-16"])
    change(changed)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed, SCHEMA)
