"""Distributions for tests of what is made of them."""

import numpy as np
from hypothesis import strategies as st

from softwalltime.predictors.learned.distribution import SIZE

masses = st.lists(st.floats(0, 10), min_size=SIZE, max_size=SIZE).map(np.array)
