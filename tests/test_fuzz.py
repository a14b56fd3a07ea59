"""A sample of the cases of `fuzzing.py`: `make fuzz` runs many more."""

from __future__ import annotations

import pytest
from hypothesis import given, seed

from fuzzing import faults, profile
from odd.cases import CASES, Case


@pytest.mark.parametrize("name", list(CASES))
def test_odd_data_and_settings_are_refused_in_words_or_used(name):
    @seed(0)
    @profile(25)
    @given(CASES[name])
    def check(case: Case) -> None:
        assert faults(case) == []

    check()
