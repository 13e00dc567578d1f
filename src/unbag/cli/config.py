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
    """Make the entries of the --config file defaults, so that the command line overrides them.

    The default `config_words` holds the same options as command-line words, for the run record.
    """
    actions = {_key(action): action for action in parser._actions if action.option_strings}
    path = _path(typed)
    if "config" not in actions or path is None:
        return
    options = {
        key: action for key, action in actions.items() if key not in ("help", "config", "set")
    }
    known = [*options, _SETTINGS] if "set" in actions else list(options)
    entries = _read(path)
    for key in entries:
        if key not in known:
            raise _unknown(path, key, known, renamed)
    overridden = {action for action in options.values() if _is_typed(action, typed)}
    for group in parser._mutually_exclusive_groups:
        keys = [key for key in entries if options.get(key) in group._group_actions]
        if len(keys) > 1:
            raise UnbagError(f"{path}: {' and '.join(keys)}", expected="only one of them")
        if keys and overridden.isdisjoint(group._group_actions):
            group.required = False
        overridden |= (
            set(group._group_actions) if not overridden.isdisjoint(group._group_actions) else set()
        )
    words: list[str] = []
    for key, value in entries.items():
        if key == _SETTINGS:
            settings = list(_settings(value, path))
            parser.set_defaults(set=settings)
            words += ["--set", *settings] if settings else []
        elif options[key] not in overridden:
            converted, texts = _convert(options[key], value, f"{path}: {key}: {value!r}")
            parser.set_defaults(**{options[key].dest: converted})
            options[key].required = False
            words += texts
    parser.set_defaults(config_words=words)


def without_config(typed: Sequence[str], words: Sequence[str]) -> list[str]:
    """Replace --config in a typed command with the options of its file."""
    command, rest = [], iter(typed)
    for word in rest:
        if word == "--config":
            next(rest)
        elif not word.startswith("--config="):
            command.append(word)
    return [*command[:1], *words, *command[1:]]


def _key(action: argparse.Action) -> str:
    long = next((option for option in action.option_strings if option.startswith("--")), "")
    return long.removeprefix("--").replace("-", "_")


def _path(typed: Sequence[str]) -> Path | None:
    """Return the file of --config; argparse reports an option without a value."""
    path = None
    for i, word in enumerate(typed):
        if word == "--config" and i + 1 < len(typed):
            path = Path(typed[i + 1])
        elif word.startswith("--config="):
            path = Path(word.partition("=")[2])
    return path


def _is_typed(action: argparse.Action, typed: Sequence[str]) -> bool:
    return any(word.partition("=")[0] in action.option_strings for word in typed)


def _read(path: Path) -> dict[str, object]:
    if path.suffix not in (*_YAML, *_TOML):
        raise UnbagError(
            f"the config file {path} has the extension {path.suffix!r}",
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
    content = _parse_toml(text, path) if path.suffix in _TOML else _parse_yaml(text, path)
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UnbagError(
            f"the config file {path} contains no mapping of options",
            expected="one line per option, such as batch_size: 64",
        )
    return content


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
        return {} if (content := yaml.safe_load(text)) is None else cast(object, content)
    except yaml.YAMLError as error:
        message = " ".join(str(error).split())
        raise UnbagError(f"the config file {path} is not YAML: {message}") from error


def _unknown(path: Path, key: str, known: Sequence[str], renamed: Mapping[str, str]) -> UnbagError:
    hint = f"known keys: {', '.join(known)}"
    new_option = renamed.get("--" + key.replace("_", "-"))
    if new_option:
        name = new_option.removeprefix("--").replace("-", "_")
        return UnbagError(f"{path}: the key {key!r}", expected=f"{key} is now {name}", hint=hint)
    error = unknown_name("key", key, known, hint=hint)
    return UnbagError(f"{path}: {error.message}", expected=error.expected, hint=hint)


def _settings(value: object, path: Path, prefix: str = "") -> Iterator[str]:
    """Yield settings as --set takes them: nested names with dots, lists as tuples."""
    if not isinstance(value, dict):
        raise UnbagError(
            f"{path}: {_SETTINGS}: {value!r}",
            expected="a mapping, such as learning_rate: 1e-6",
        )
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _settings(item, path, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={_setting(item)}"


def _setting(value: object) -> str:
    if isinstance(value, list):
        return f"({''.join(f'{_setting(item)},' for item in value)})"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _convert(action: argparse.Action, value: object, where: str) -> tuple[object, list[str]]:
    """Return the value of an option, and the option as typed on the command line."""
    flag = max(action.option_strings, key=len)
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UnbagError(where, expected="true or false")
        return value, [flag] if value else []
    if action.nargs != "+":
        return (converted := _convert_one(action, value, where)), [flag, str(converted)]
    values = value if isinstance(value, list) else [value]
    if not values:
        raise UnbagError(where, expected="at least one value")
    converted_values = [_convert_one(action, item, where) for item in values]
    return converted_values, [flag, *map(str, converted_values)]


def _convert_one(action: argparse.Action, value: object, where: str) -> object:
    """Convert one value to the type of an option and check its choices."""
    kind = cast(Callable[[str], object], action.type or str)
    if kind is Path and not isinstance(value, str):
        raise UnbagError(where, expected="the path of a file or folder")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UnbagError(where, expected=_expected(action))
    try:
        converted = kind(str(value))
    except (TypeError, ValueError, argparse.ArgumentTypeError) as error:
        raise UnbagError(where, expected=_expected(action), hint=str(error)) from error
    if action.choices is not None and converted not in action.choices:
        raise UnbagError(where, expected=_expected(action))
    return converted


def _expected(action: argparse.Action) -> str:
    if action.choices is not None:
        return f"one of {', '.join(map(str, action.choices))}"
    list_note = ", or a list of such" if action.nargs == "+" else ""
    return ("text" if action.type is None else "a number") + list_note
