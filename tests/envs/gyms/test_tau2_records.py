"""τ²'s shared databases: an episode changes its own copy alone, and its state holds what it touched, exactly."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from silva.envs import Registry
from silva.envs.gyms.tau2 import records
from silva.envs.install import interpreter
from silva.errors import MissingError

PLAYED = Path(__file__).with_name("tau2_states.py")


class Order(BaseModel):
    id: str
    items: list[str]


class Shop(BaseModel):
    orders: dict[str, Order]
    users: dict[str, Order]


def pristine() -> Shop:
    made = {name: Order(id=name, items=[name]) for name in "abcd"}
    return Shop(orders=dict(made), users={"u": Order(id="u", items=[])})


CHANGES = st.tuples(
    st.sampled_from(["append", "assign", "add", "delete", "pop", "setdefault", "update", "clear", "popitem", "read"]),
    st.sampled_from("abcdef"),
)


def change(shop: Any, kind: str, key: str) -> None:
    orders = shop.orders
    if kind == "append" and key in orders:
        orders[key].items.append(f"{key}{len(orders[key].items)}")
    elif kind == "assign" and key in orders:
        orders.get(key).id = f"new {key}"
    elif kind == "add":
        orders[key] = Order(id=key, items=["added"])
    elif kind == "delete" and key in orders:
        del orders[key]
    elif kind == "pop":
        orders.pop(key, None)
    elif kind == "setdefault":
        orders.setdefault(key, Order(id=key, items=[])).items.append("s")
    elif kind == "update":
        orders.update({key: Order(id=key, items=["updated"])})
    elif kind == "clear":
        orders.clear()
    elif kind == "popitem" and orders:
        orders.popitem()
    elif kind == "read" and key in orders:
        assert orders[key].items is orders[key].items, "one copy, not one a look"


@settings(deadline=None)
@given(st.lists(CHANGES, max_size=8), st.lists(CHANGES, max_size=4))
def test_a_shared_database_is_as_one_of_its_own_and_comes_back_exactly(before: list[Any], after: list[Any]) -> None:
    base, plain = pristine(), pristine()
    shop = records.shared(base)
    for each in before:
        change(shop, *each)
        change(plain, *each)
    kept = records.touched(shop)
    assert kept is not None
    again = records.again(base, pickle.loads(pickle.dumps(kept)))
    for each in after:
        change(shop, *each)
        change(plain, *each)
        change(again, *each)
    for one in (shop, again):
        assert one.model_dump_json() == plain.model_dump_json()
        assert list(one.orders) == list(plain.orders), "in the same order"
        assert pickle.loads(pickle.dumps(one)).model_dump() == plain.model_dump()
    assert base == pristine(), "and nobody else's is changed"


def test_what_an_episode_has_not_touched_is_not_in_its_state() -> None:
    shop = records.shared(pristine())
    assert [order.id for order in shop.orders.values()] == list("abcd")
    assert records.touched(shop) == {name: {"own": {}, "added": [], "order": None} for name in ("orders", "users")}
    shop.orders["b"].items.append("x")
    kept = records.touched(shop)
    assert kept is not None and list(kept["orders"]["own"]) == ["b"]
    shop.orders = {}
    assert records.touched(shop) is None, "a database that was put in its place is kept whole"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [pytest.param("Tau2Airline", "tau2-airline", marks=pytest.mark.weekly), ("Tau2Retail", "tau2-retail")],
)
def test_every_turn_of_real_tasks_goes_on_from_its_state_and_the_shipped_database_stays(kind: str, name: str) -> None:
    try:
        python = interpreter(Registry.load().entry(name))
    except MissingError as missing:
        pytest.skip(str(missing))
    count = os.environ.get("SILVA_TAU2_TASKS", "3")
    environment = {**os.environ, "PYTHONPATH": str(Path(records.__file__).parents[4])}
    done = subprocess.run(
        [python, str(PLAYED), kind, count], capture_output=True, text=True, env=environment, timeout=3000, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["differed"] == [] and found["pristine"] and found["tasks"] == int(count)
    assert found["largest"] < 1 << 18, "of a database of 2.7 MB, only what was touched"
