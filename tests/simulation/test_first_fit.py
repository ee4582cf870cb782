"""The compiled search for vnodes, against a plain one."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from softwalltime.measure.simulation.first_fit import first_fit

VNODES = 5
Chunks = list[tuple[int, list[int]]]
Found = dict[int, list[int]]


def plain(
    chunks: Chunks, scatter: bool, usable: list[bool], whole: list[bool], capacity: list[list[int]],
    free: list[list[int]],
) -> Found | None:  # fmt: skip
    """Place one chunk after the other, as PBS's scheduler does; return what the job takes of each vnode."""
    left, taken = [list(each) for each in free], Found()
    for count, need in chunks:
        for _ in range(count):
            for vnode in range(VNODES):
                may = usable[vnode] and (not whole[vnode] or free[vnode] == capacity[vnode])
                spread = not scatter or vnode not in taken
                if may and spread and all(have >= some for have, some in zip(left[vnode], need, strict=True)):
                    left[vnode] = [have - some for have, some in zip(left[vnode], need, strict=True)]
                    taken.setdefault(vnode, [])
                    break
            else:
                return None
    return {
        vnode: capacity[vnode] if whole[vnode] else [a - b for a, b in zip(free[vnode], left[vnode], strict=True)]
        for vnode in sorted(taken)
    }


AMOUNTS = st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)).map(list)
NEEDS = AMOUNTS.filter(any)
RELEASE = st.dictionaries(st.integers(0, VNODES - 1), AMOUNTS, max_size=3)
FLAGS = st.lists(st.booleans(), min_size=VNODES, max_size=VNODES)
ROWS = st.lists(AMOUNTS, min_size=VNODES, max_size=VNODES)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), NEEDS), max_size=3), st.booleans(), FLAGS, FLAGS, ROWS, ROWS,
    st.lists(st.tuples(st.integers(1, 9), RELEASE), max_size=6),
    st.integers(0, 9),
)  # fmt: skip
def test_it_finds_what_a_plain_search_finds_at_the_same_time(
    chunks: Chunks, scatter: bool, usable: list[bool], whole: list[bool], free: list[list[int]],
    more: list[list[int]], releases: list[tuple[int, Found]], earliest: int,
) -> None:  # fmt: skip
    capacity = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(free, more, strict=True)]
    releases = sorted(releases, key=lambda release: release[0])
    vnodes = [vnode for _, release in releases for vnode in release]
    by = [release[vnode] for _, release in releases for vnode in release]
    changes = (
        np.array([time for time, _ in releases], np.int64),
        np.cumsum([0, *(len(release) for _, release in releases)]),
        np.array(vnodes, np.int64), _columns(by),
    )  # fmt: skip
    request = (
        np.array([count for count, _ in chunks], np.int64),
        np.array([need for _, need in chunks], np.int64).reshape(-1, 3), scatter, np.array(usable), np.array(whole),
    )  # fmt: skip
    then = _columns(free)
    past, places, amounts = first_fit(*request, _columns(capacity), then, 0, *changes, 0, earliest)

    expected, expected_past = None, -1
    for number in range(len(releases) + 1):
        time = releases[number - 1][0] if number else 0
        for vnode, amount in (releases[number - 1][1] if number else {}).items():
            free[vnode] = [a + b for a, b in zip(free[vnode], amount, strict=True)]
        last = number == len(releases) or releases[number][0] > time
        if last and time >= earliest and expected is None:
            expected = plain(chunks, scatter, usable, whole, capacity, free)
            if expected is not None:
                expected_past = number
                break
    assert past == expected_past
    assert dict(zip(places.tolist(), amounts.T.tolist(), strict=True)) == (expected or {})
    assert then.tolist() == _columns(free).tolist()


def _columns(rows: list[list[int]]) -> Any:
    return np.array(rows, np.int64).reshape(-1, 3).T.copy()
