"""Printed numbers as intervals, and the averaging rules that papers use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType


def averages(
    benchmark: str, cells: Mapping[str, PrintedNumber], *, overall: bool = True, name: str = ""
) -> dict[str, tuple[Fraction, Fraction]]:
    """Average a row by the rules of a benchmark: all overall rules, or the rule named."""
    intervals: dict[str, tuple[Fraction, Fraction]] = {}
    for rule in RULES.get(benchmark, ()):
        is_chosen = rule.name == name if name else rule.is_overall == overall
        interval = rule.of(cells) if is_chosen and rule.name not in intervals else None
        if interval is not None:
            intervals[rule.name] = interval
    return intervals


@dataclass(frozen=True)
class Rule:
    """An averaging rule: the weights of its cells."""

    name: str
    weights: Mapping[str, Fraction]
    """Weight by the rule of each cell; weights need not add up to 1."""
    is_overall: bool = True
    """Whether an average without a stated rule may follow this rule."""

    def of(self, cells: Mapping[str, PrintedNumber]) -> tuple[Fraction, Fraction] | None:
        """Return the range of the average of rounded cells; None if a cell is missing."""
        if not all(name in cells for name in self.weights):
            return None
        total = sum(self.weights.values())
        zero = Fraction(0)
        low = sum((weight * cells[name].low for name, weight in self.weights.items()), zero)
        high = sum((weight * cells[name].high for name, weight in self.weights.items()), zero)
        return low / total, high / total


@dataclass(frozen=True)
class PrintedNumber:
    """A printed percentage, known to half a unit of its last digit."""

    value: Fraction
    digits: int
    """Decimals of the percentage."""
    shown_digits: int
    """Decimals of this number as printed: 80 among 79.8 and 90.9 has none, although its table has
    one."""
    is_score: bool = False

    @property
    def half(self) -> Fraction:
        """Half a unit of the last digit."""
        return Fraction(1, 2) / Fraction(10) ** self.digits

    @property
    def low(self) -> Fraction:
        """The smallest value that is printed like this."""
        return self.value - self.half

    @property
    def high(self) -> Fraction:
        """The largest value that is printed like this."""
        return self.value + self.half

    def agrees(self, low: Fraction, high: Fraction) -> bool:
        """Return whether a value from low to high is printed like this; ends count."""
        return self.low <= high and low <= self.high

    @property
    def alone(self) -> PrintedNumber:
        """The number with the precision of its own digits only."""
        return PrintedNumber(self.value, self.shown_digits, self.shown_digits, self.is_score)

    def __str__(self) -> str:
        """Format with its digits, as percent or as a score."""
        if self.is_score:
            return f"{float(self.value / 100):.{self.digits + 2}f}"
        return f"{float(self.value):.{self.digits}f}"


def nested(groups: Iterable[Iterable[str]]) -> dict[str, Fraction]:
    """Return the weights of the mean over groups of the mean of each group."""
    lists = [list(group) for group in groups]
    return {name: Fraction(1, len(group)) for group in lists for name in group}


def plain(names: Iterable[str]) -> dict[str, Fraction]:
    """Return the weights of the plain mean."""
    return dict.fromkeys(names, Fraction(1))


_FAMILIES = {
    "replace": {"replace_obj": 1652, "replace_att": 788, "replace_rel": 1406},
    "swap": {"swap_obj": 245, "swap_att": 666},
    "add": {"add_obj": 2062, "add_att": 692},
}
"""Number of rows of each kind of SugarCrepe, by family."""


def _sugarcrepe() -> tuple[Rule, ...]:
    families = {
        family: {f"micro[kind={kind}]": rows for kind, rows in kinds.items()}
        for family, kinds in _FAMILIES.items()
    }
    pooled = {
        name: Fraction(rows, sum(cells.values()))
        for cells in families.values()
        for name, rows in cells.items()
    }
    all_rows = {name: Fraction(rows) for cells in families.values() for name, rows in cells.items()}
    return (
        Rule("macro7", plain(name for cells in families.values() for name in cells)),
        Rule("macro3", nested(families.values())),
        Rule("macro(family)", pooled),
        Rule("micro", all_rows),
        *(
            Rule(f"macro {family}", plain(cells), is_overall=False)
            for family, cells in families.items()
        ),
    )


VALSE_PHENOMENA: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "existence": ("existence",),
        "plurals": ("plurals",),
        "counting": ("counting-hard", "counting-small-quant", "counting-adversarial"),
        "relations": ("relations",),
        "actions": ("action-replacement", "actant-swap"),
        "coreference": ("coreference-standard", "coreference-hard"),
        "foil-it": ("foil-it",),
    }
)


def _valse() -> tuple[Rule, ...]:
    def cell(name: str) -> str:
        return f"micro[instrument={name}]"

    counting = "macro counting"
    cells = {name: [cell(i) for i in names] for name, names in VALSE_PHENOMENA.items()}
    others = [
        name for phenomenon, names in cells.items() if phenomenon != "counting" for name in names
    ]
    columns = {**cells, "counting": [counting]}
    return (
        # Three rules from nine cells, of which one is a mean of three, and from all eleven cells.
        Rule("macro11", {**plain(others), counting: Fraction(3)}),
        Rule("macro9", plain([*others, counting])),
        Rule("macro7", nested(columns.values())),
        Rule("macro11", plain(name for names in cells.values() for name in names)),
        Rule("macro9", nested([[name] for name in others] + [cells["counting"]])),
        Rule("macro7", nested(cells.values())),
    )


def _checklist() -> tuple[Rule, ...]:
    cells = {
        "macro attribute": [
            f"macro attribute {name}" for name in ("action", "color", "material", "size", "state")
        ],
        "macro object": ["macro object location", "macro object size"],
        "macro relation": ["macro relation action", "macro relation spatial"],
    }
    parts = {
        **cells,
        "macro object": [
            *(f"location {part}" for part in ("center", "margin", "mid")),
            *(f"size {part}" for part in ("large", "medium", "small")),
        ],
    }
    columns = [name for names in cells.values() for name in names]
    return (
        Rule("macro9", plain(columns)),
        # If a column is missing, the average of its group replaces it.
        Rule("macro9", {name: Fraction(len(names)) for name, names in cells.items()}),
        Rule("macro3", plain(cells)),
        Rule("macro3", nested(cells.values())),
        Rule("macro3", nested(parts.values())),
        *(Rule(name, plain(names), is_overall=False) for name, names in cells.items()),
    )


MMVP_PATTERNS = (
    "Orientation and Direction",
    "Presence of Specific Features",
    "State and Condition",
    "Quantity and Count",
    "Positional and Relational Context",
    "Color and Appearance",
    "Structural Characteristics",
    "Texts",
    "Viewpoint and Perspective",
)

RULES: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "sugarcrepe": _sugarcrepe(),
        "valse": _valse(),
        "vl_checklist": _checklist(),
        "mmvp_vlm": (
            Rule("macro(pattern)", plain(f"micro[pattern={name}]" for name in MMVP_PATTERNS)),
        ),
    }
)
"""Rules by benchmark. Of two rules with one name, the first with all its cells applies."""
