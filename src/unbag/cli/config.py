"""`--config FILE`: options of a command from a YAML or TOML file.

Keys are the long options with underscores: batch_size for --batch-size. For commands with --set,
`settings` is a mapping of hyperparameters, which may be nested.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from unbag.errors import UnbagError, unknown_name

_SETTINGS = "settings"
_YAML, _TOML = (".yaml", ".yml"), (".toml",)


def apply_config(
    parser: argparse.ArgumentParser, typed: Sequence[str], *, renamed: Mapping[str, str]
) -> None:
    """Make the entries of the file of --config defaults, so that the command line overrides them.

    The same options as words are left in the default `config_words`, for the record of a run.
    """
    actions = {_key(one): one for one in parser._actions if one.option_strings}
    path = _path(typed)
    if "config" not in actions or path is None:
        return
    options = {key: one for key, one in actions.items() if key not in ("help", "config", "set")}
    known = [*options, _SETTINGS] if "set" in actions else list(options)
    entries = _read(path)
    for key in entries:
        if key not in known:
            raise _unknown(path, key, known, renamed)
    given = {one for one in options.values() if _is_typed(one, typed)}
    for group in parser._mutually_exclusive_groups:
        both = [key for key in entries if options.get(key) in group._group_actions]
        if len(both) > 1:
            raise UnbagError(f"{path}: {' and '.join(both)}", expected="only one of them")
        if both and given.isdisjoint(group._group_actions):
            group.required = False
        given |= set(group._group_actions) if not given.isdisjoint(group._group_actions) else set()
    words: list[str] = []
    for key, value in entries.items():
        if key == _SETTINGS:
            settings = list(_settings(value, path))
            parser.set_defaults(set=settings)
            words += ["--set", *settings] if settings else []
        elif options[key] not in given:
            found, texts = _converted(options[key], value, f"{path}: {key}: {value!r}")
            parser.set_defaults(**{options[key].dest: found})
            options[key].required = False
            words += texts
    parser.set_defaults(config_words=words)


def without_config(typed: Sequence[str], words: Sequence[str]) -> list[str]:
    """A typed command with the words of its file in the place of --config."""
    found, rest = [], iter(typed)
    for word in rest:
        if word == "--config":
            next(rest)
        elif not word.startswith("--config="):
            found.append(word)
    return [*found[:1], *words, *found[1:]]


def _key(action: argparse.Action) -> str:
    long = next((one for one in action.option_strings if one.startswith("--")), "")
    return long.removeprefix("--").replace("-", "_")


def _path(typed: Sequence[str]) -> Path | None:
    """The file of --config; one without a value is left to argparse."""
    found = None
    for at, word in enumerate(typed):
        if word == "--config" and at + 1 < len(typed):
            found = Path(typed[at + 1])
        elif word.startswith("--config="):
            found = Path(word.partition("=")[2])
    return found


def _is_typed(action: argparse.Action, typed: Sequence[str]) -> bool:
    return any(word.partition("=")[0] in action.option_strings for word in typed)


def _read(path: Path) -> dict[str, object]:
    if path.suffix not in (*_YAML, *_TOML):
        raise UnbagError(
            f"the config file {path} has the ending {path.suffix!r}",
            expected=".yaml, .yml or .toml",
        )
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UnbagError(
            f"there is no config file {path}", hint="check the path given with --config"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UnbagError(f"the config file {path} cannot be read: {error}") from error
    found = _parse_toml(text, path) if path.suffix in _TOML else _parse_yaml(text, path)
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise UnbagError(
            f"the config file {path} holds no mapping of options",
            expected="a line for each option, such as batch_size: 64",
        )
    return found


def _parse_toml(text: str, path: Path) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnbagError(f"the config file {path} is not TOML: {error}") from error


def _parse_yaml(text: str, path: Path) -> object:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise UnbagError(
            f"the config file {path} is YAML, and PyYAML is not installed",
            hint="pip install pyyaml, or write the file as TOML",
        ) from error
    try:
        return {} if (found := yaml.safe_load(text)) is None else cast(object, found)
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        raise UnbagError(f"the config file {path} is not YAML: {said}") from error


def _unknown(path: Path, key: str, known: Sequence[str], renamed: Mapping[str, str]) -> UnbagError:
    hint = f"known keys: {', '.join(known)}"
    new = renamed.get("--" + key.replace("_", "-"))
    if new:
        name = new.removeprefix("--").replace("-", "_")
        return UnbagError(f"{path}: the key {key!r}", expected=f"{key} is now {name}", hint=hint)
    error = unknown_name("key", key, known, hint=hint)
    return UnbagError(f"{path}: {error.message}", expected=error.expected, hint=hint)


def _settings(value: object, path: Path, prefix: str = "") -> Iterator[str]:
    """As --set takes them: a nested one with dots, a list as a tuple."""
    if not isinstance(value, dict):
        raise UnbagError(
            f"{path}: {_SETTINGS}: {value!r}",
            expected="a mapping, such as learning_rate: 1e-6",
        )
    for key, one in value.items():
        if isinstance(one, dict):
            yield from _settings(one, path, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={_setting(one)}"


def _setting(value: object) -> str:
    if isinstance(value, list):
        return f"({''.join(f'{_setting(one)},' for one in value)})"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _converted(action: argparse.Action, value: object, where: str) -> tuple[object, list[str]]:
    """What the option holds, and how it would be typed."""
    flag = max(action.option_strings, key=len)
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UnbagError(where, expected="true or false")
        return value, [flag] if value else []
    if action.nargs != "+":
        return (found := _fit(action, value, where)), [flag, str(found)]
    values = value if isinstance(value, list) else [value]
    if not values:
        raise UnbagError(where, expected="at least one value")
    several = [_fit(action, one, where) for one in values]
    return several, [flag, *map(str, several)]


def _fit(action: argparse.Action, value: object, where: str) -> object:
    """One value, held to the type and the choices of the option."""
    kind = cast(Callable[[str], object], action.type or str)
    if kind is Path and not isinstance(value, str):
        raise UnbagError(where, expected="the path of a file or folder")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UnbagError(where, expected=_wanted(action))
    try:
        found = kind(str(value))
    except (TypeError, ValueError, argparse.ArgumentTypeError) as error:
        raise UnbagError(where, expected=_wanted(action), hint=str(error)) from error
    if action.choices is not None and found not in action.choices:
        raise UnbagError(where, expected=_wanted(action))
    return found


def _wanted(action: argparse.Action) -> str:
    if action.choices is not None:
        return f"one of {', '.join(map(str, action.choices))}"
    several = ", or a list of such" if action.nargs == "+" else ""
    return ("text" if action.type is None else "a number") + several
