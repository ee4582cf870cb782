"""Queue orders defined by powers of wait, length and size, and their ``job_sort_formula``.

The priority of a job is (wait + age)^k / length^e x processors^b.  The length is walltime^(1 - s) x predicted^s, each
at most a cap: among jobs longer than that only wait and size count, so that few very long jobs do not pay for all.
Jobs that have waited a number of days come before all others, the oldest first.  A job whose start PBS has promised
comes even before those: live values set its ordering value to :data:`PROMISED`.

The tails of the waits depend on the ratio k / e: with k = 2e, long and wide jobs wait about as long as in order of
arrival, and most of the gain in mean wait of the plain expansion factor (k = e) remains.
"""

from dataclasses import asdict, dataclass, fields
from typing import Final, Self

from softwalltime.core.errors import OptionError
from softwalltime.core.formatting import DAY, HOUR

NAME: Final = "powers"
"""The order's name in a specification."""
OLDEST_FIRST: Final = "1e7"
"""Added to the wait of a job past the limit.  In single precision 1e7 + seconds is exact for 77 days of wait."""
PROMISED: Final = 1
"""Ordering value in seconds that marks a job with a kept place at the head of the queue; predictions are longer."""
PROMISED_FIRST: Final = "2e7"
"""Priority of a job with that ordering value: above the priority of any age."""
UNKNOWN_LENGTH: Final = "1e9"
"""Seconds used for a job without walltime, which is ordered last."""
FAIR_SHARE: Final = "fairshare_perc / (fairshare_perc + fairshare_tree_usage)"
"""Factor of a user's priority by fair share: 1 without usage, a half at as much usage as the share.

PBS's ``fairshare_factor`` halves with each further share used, and is 0 in PBS's six decimals from twenty shares on.
"""
_BOUNDS: Final = {
    "wait": (0.01, 10.0), "length": (0.0, 10.0), "size": (-10.0, 10.0), "predicted": (0.0, 1.0), "age": (1.0, 1e6),
    "days": (0.0, 100.0), "cap": (0.0, 1000.0),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PowerOrder:
    """An order of the family; the defaults are those of the preset balanced.

    :raises OptionError: if a value is outside its bounds.
    """

    wait: float = 2.0
    """Exponent of wait + age."""
    length: float = 1.0
    """Exponent of the length, the divisor."""
    size: float = 0.5
    """Exponent of the number of processors."""
    predicted: float = 0.25
    """Share of the predicted runtime in the length; the rest is the walltime."""
    age: float = 3600.0
    """Seconds that are added to the wait."""
    days: float = 4.0
    """Days of wait after which a job comes before all younger ones; 0: never."""
    cap: float = 0.0
    """Hours from which on walltime and predicted runtime count as these hours; 0: no cap."""

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise OptionError(f"order {NAME}: {name}={value:g} must be from {least:g} to {most:g}")

    @classmethod
    def of(cls, spec: str) -> Self:
        """Parse a specification such as ``powers:wait=2,length=1,days=4``; other values have their defaults.

        :raises OptionError: if it is wrong; names the option and its value.
        """
        name, _, listed = spec.partition(":")
        if name != NAME:
            raise OptionError(f"{spec!r}: the order is not {NAME}")
        known = [field.name for field in fields(cls)]
        values: dict[str, float] = {}
        for item in listed.split(",") if listed else ():
            option, _, text = item.partition("=")
            if option not in known:
                raise OptionError(f"{spec!r}: {item!r} is not of the form option=number; options: {', '.join(known)}")
            if option in values:
                raise OptionError(f"{spec!r}: option {option!r} is given twice")
            try:
                values[option] = float(text)
            except ValueError as error:
                raise OptionError(f"{spec!r}: {option}={text}: not a number") from error
        return cls(**values)

    def __str__(self) -> str:
        return f"{NAME}:" + ",".join(f"{name}={value!r}".removesuffix(".0") for name, value in asdict(self).items())

    @property
    def exponents(self) -> tuple[float, float, float]:
        """Return the exponents of predicted runtime, walltime and size, normalised to an exponent of 1 for the wait.

        Any monotone function of a priority gives the same order.  This one stays within PBS's single precision.
        """
        length = self.length / self.wait
        return length * self.predicted, length * (1 - self.predicted), self.size / self.wait

    @property
    def limit(self) -> int | None:
        return round(self.days * DAY) or None

    @property
    def longest(self) -> float | None:
        """The cap in seconds; ``None``: no cap."""
        return self.cap * HOUR or None

    def formula(self, resource: str, *, fair_share: bool = False) -> str:
        """Return the order as PBS's ``job_sort_formula``.

        :param resource: the custom one with the predicted runtime.
        :param fair_share: whether users come later the more they have used for their share (:data:`FAIR_SHARE`).
        """
        predicted, walltime, size = self.exponents
        runtime, limit = f"{resource} or walltime", "walltime"
        if self.longest is not None:
            runtime, limit = (f"min({length}, {self.longest!r})" for length in (runtime, limit))
        runtime, limit = (f"({length} or {UNKNOWN_LENGTH})" for length in (runtime, limit))
        text = f"(eligible_time + {self.age!r})"
        if predicted == walltime:
            text += f" / {_power(f'({runtime} * {limit})', predicted)}" if predicted else ""
        else:
            text += f" / {_power(runtime, predicted)}" if predicted else ""
            text += f" / {_power(limit, walltime)}" if walltime else ""
        if size:
            # A request for 0 processors would make the priority 0.
            text += f" * {_power('(ncpus or 1)', size)}"
        if fair_share:
            text += f" * {FAIR_SHARE}"
        if self.limit is not None:
            text = f"({OLDEST_FIRST} + eligible_time) if eligible_time > {self.limit} else {text}"
        # A job with a walltime of 1 s has the ordering value 1 without a promise.
        return f"{PROMISED_FIRST} if {resource} == {PROMISED} and walltime > {PROMISED} else {text}"


def _power(base: str, exponent: float) -> str:
    return base if exponent == 1 else f"{base}**{exponent!r}"


EXPANSION_FACTOR: Final = PowerOrder(wait=1.0, size=0.0, predicted=1.0, days=0.0)
"""(wait + 1 h) / predicted runtime: the order of the preset order."""
BALANCED: Final = PowerOrder()
"""(wait + 1 h)^2 / (walltime^(3/4) x predicted runtime^(1/4)) x sqrt(processors), oldest first after 4 days."""
