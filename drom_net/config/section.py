"""One mapping of a configuration, checked key by key against the settings it may hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from drom_net.config.yamlfile import Item, Mark, Problems, dotted, quoted
from drom_net.core.errors import did_you_mean
from drom_net.core.fields import REQUIRED, Choice, Integer, ItemError, Setting, Spec, Text, TextOrTexts


class Section:
    """One mapping of the file, checked key by key; what holds is in `values`, by field name."""

    def __init__(
        self,
        problems: Problems,
        path: str,
        item: Item | None,
        settings: dict[str, Setting],
        *,
        also: Collection[str] = (),
        kind: str = "",
        preset: Mapping[str, object] | None = None,
        elsewhere: Callable[[str, str], str] = lambda key, path: "",
    ) -> None:
        """Check a section against its settings.

        Args:
            problems: Where to report.
            path: Its key; empty for the top.
            item: The mapping; None where the file has none.
            settings: What it may hold, by key.
            also: Keys that are known too, but not read here.
            kind: Which learner or data set the settings belong to.
            preset: What replaces the defaults, by field name.
            elsewhere: From an unknown key and this section's path to a hint where it belongs.
        """
        self.path = path
        self.items: dict[str, Item] = {}
        self.values: dict[str, Any] = {}
        self._problems = problems
        self._mark = item.mark if item else Mark(False, 0, 0, str(problems.file))
        if item and isinstance(item.value, dict):
            self.items = item.value
        elif item and item.value is not None:
            self._refuse_section(item)
            return
        self._refuse_unknown_keys(list(dict.fromkeys([*also, *settings])), kind, elsewhere)
        for key, setting in settings.items():
            default = (preset or {}).get(setting.field, setting.default)
            if key in self.items:
                self._take(setting, self.items[key])
            elif default is not REQUIRED:
                self.values[setting.field] = default
            elif path:
                self.complain(key, expected=setting.spec.expected(), got="nothing")

    def __getitem__(self, field: str) -> Any:
        return self.values[field]

    def given(self, *fields: str) -> bool:
        """Whether all of these have a value to be compared; a wrong one has been reported by itself."""
        return all(self.values.get(field) is not None for field in fields)

    def complain(self, key: str, *, expected: str, got: str = "", hint: str = "", index: int | None = None) -> None:
        """Report a key, or one item of its list; by default, what came is its value."""
        path = dotted(self.path, key)
        item = self.items.get(key)
        if item and index is not None and isinstance(item.value, list):
            item = item.value[index]
            path = f"{path}[{index}]"
        mark = item.mark if item else self._mark
        self._problems.add(mark, path, expected=expected, got=got or str(item), hint=hint)

    def _take(self, setting: Setting, item: Item) -> None:
        if item.value is None and setting.default is None:
            self.values[setting.field] = None
            return
        try:
            self.values[setting.field] = setting.spec.parse(item.plain())
        except ItemError as error:
            assert isinstance(item.value, list)
            hint = str(error) or _hint(Text(), item.value[error.index])
            self.complain(setting.key, expected=error.expected, hint=hint, index=error.index)
        except ValueError as error:
            hint = str(error) or _hint(setting.spec, item)
            if item.value is None and setting.default is not REQUIRED:
                hint = "leave the key out for its default"
            self.complain(setting.key, expected=setting.spec.expected(), hint=hint)

    def _refuse_section(self, item: Item) -> None:
        hint = ""
        first = {"algorithm": "name", "data": "dataset"}.get(self.path)
        if isinstance(item.value, str) and first:
            hint = f"set {self.path}.{first} to it"
        self._problems.add(item.mark, self.path, expected="a mapping", got=str(item), hint=hint)

    def _refuse_unknown_keys(self, known: Collection[str], kind: str, elsewhere: Callable[[str, str], str]) -> None:
        for key in self.items:
            if key in known or self._problems.full:
                continue
            # A slip of one letter is of this section, whatever other section has such a key.
            slip = did_you_mean(key, known, cutoff=0.85) if len(key) < 80 else ""
            hint = slip or elsewhere(key, self.path)
            if not hint and len(key) < 80:
                hint = did_you_mean(key, known)
            if len(known) < 9 or not hint or not self.path:
                expected = "one of the keys " + ", ".join(known)
            else:
                expected = f"a key of {self.path}" + (f" ({kind})" if kind else "")
            self.complain(key, expected=expected, got=quoted(key), hint=hint)


def _hint(spec: Spec, item: Item) -> str:
    """What is probably meant by a value of the wrong kind."""
    value = item.value
    if isinstance(spec, Choice) and isinstance(value, str):
        return did_you_mean(value[:80], spec.words)
    if isinstance(spec, Text | TextOrTexts) and isinstance(value, bool | int | float):
        return f'in quotes it is a text: "{item.raw[:80]}"'
    if isinstance(spec, Text | TextOrTexts) and isinstance(value, dict):
        return "a text that starts with { needs quotes"
    if isinstance(spec, Integer) and isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return f"write {int(value)}"
    return ""
