"""`trimtab completion`: a script for the shell, written from the parsers. Completing starts no Python."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from typing import Literal

from trimtab import presets
from trimtab.core.options import Options
from trimtab.experiments.catalogue import DECLARED
from trimtab.libraries import LIBRARIES
from trimtab.operations import HELP, parsers
from trimtab.operations.declaration import Call, operation

SHELLS = ("bash", "zsh", "fish")
# What to offer where a value is no choice of words: by the name of the option or position, or by what help calls it.
DIRECTORIES = ("run", "run_dir", "dir", "directory", "store", "runs", "DIR", "RUN")
FILES = ("config", "file", "source", "save", "FILE")
SWITCH = ("true", "false")  # may follow an option that also stands alone


@dataclass(frozen=True)
class Word:
    """An option (or a position, whose name starts with no dash), what may follow it, and what it is about."""

    name: str
    values: tuple[str, ...]
    kind: str  # words, list (the name of one), files, directories, flag (nothing follows) or any
    help: str


def _following() -> dict[str, dict[str, Word]]:
    """What stands after a word that is no option, by command."""
    folders = {verb: Word(verb, (), "directories", "") for verb in ("show", "claims")}
    return {"study": {"run": Word("run", ("studies",), "list", "the study"), **folders}}


@dataclass(frozen=True)
class Completion(Options):
    """Which shell."""

    shell: Literal["bash", "zsh", "fish"]
    """The shell: bash, zsh or fish."""


def _show(script: str, call: Call) -> None:
    print(script, end="")


@operation(
    "completion",
    Completion,
    _show,
    epilog="Write it once where the shell looks: "
    "trimtab completion bash > ~/.local/share/bash-completion/completions/trimtab; "
    'trimtab completion zsh > "${fpath[1]}/_trimtab"; '
    "trimtab completion fish > ~/.config/fish/completions/trimtab.fish. "
    "Again after an update, or when environments have been installed.",
)
def completion(options: Completion) -> str:
    """Write the completion script of a shell.

    Returns:
        The script.
    """
    words = {name: [_word(action) for action in made._actions] for name, made in parsers().items()}
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](words)


def _lists() -> dict[str, list[str]]:
    """Long lists of words, which a script holds once and under a name."""
    from trimtab.envs import list_environments

    return {
        "environments": sorted({row.env_id for row in list_environments() if row.available}),
        "presets": presets.names(),
        "studies": list(DECLARED),
    }


def _word(action: argparse.Action) -> Word:
    name = action.option_strings[-1] if action.option_strings else action.dest
    help = (action.help or "").replace("%%", "%")
    if action.nargs == 0:
        return Word(name, (), "flag", help)
    if action.metavar == "env" or action.dest == "env_id":
        return Word(name, ("environments",), "list", help)
    if action.dest == "preset":
        return Word(name, ("presets",), "list", help)
    for kind, names in (("directories", DIRECTORIES), ("files", FILES)):
        if action.dest in names or action.metavar in names:
            return Word(name, (), kind, help)
    choices = tuple(str(action.metavar).split("|")) if "|" in str(action.metavar) else ()
    choices = {"shell": SHELLS, "library": tuple(LIBRARIES), "on": ("local", "inline", "ray")}.get(action.dest, choices)
    return Word(name, choices, "words" if choices else "any", help)


def _options(words: list[Word]) -> list[Word]:
    return [word for word in words if word.name.startswith("-")]


def _position(words: list[Word]) -> Word | None:
    return next((word for word in words if not word.name.startswith("-")), None)


def _offer(word: Word, shell: str) -> str:
    """What to say in a shell so that it offers a word's values."""
    offers = {
        "bash": {"files": "_trimtab_files -f", "directories": "_trimtab_files -d", "words": "_trimtab_words"},
        "zsh": {"files": "_files", "directories": "_files -/", "words": "compadd --"},
    }[shell]
    if word.kind == "list":
        name = f"_trimtab_{word.values[0]}"
        return f"{offers['words']} " + {"bash": f"${name}", "zsh": f"${{={name}}}"}[shell]
    if word.kind not in offers:
        return ":"
    if word.kind != "words":
        return offers[word.kind]
    return f"{offers['words']} {' '.join(map(shlex.quote, word.values))}"


def _cases(commands: dict[str, list[Word]], shell: str, indent: str) -> str:
    """For each command: what follows an option or a verb, its options, what stands in its position."""
    lines = []
    following = _following()
    for command, words in commands.items():
        lines.append(f"{indent}{command})")
        lines.append(f'{indent}  case "$previous" in')
        for word in (*_options(words), *following.get(command, {}).values()):
            if word.kind != "flag":
                stop = "" if word.values == SWITCH else "return "  # what else may stand there is offered too
                lines.append(f"{indent}    {word.name}) {_offer(word, shell)}; {stop};;")
        lines.append(f"{indent}  esac")
        names = " ".join(word.name for word in _options(words))
        offered = {"bash": "_trimtab_words", "zsh": "compadd --"}[shell]
        lines.append(f'{indent}  if [[ "$current" == -* ]]; then {offered} {names}; return; fi')
        position = _position(words)
        lines.append(f"{indent}  {_offer(position, shell) if position else ':'} ;;")
    return "\n".join(lines)


def _named_lists(form: str) -> str:
    return "\n".join(form.format(f"_trimtab_{name}", " ".join(words)) for name, words in _lists().items())


def _bash(commands: dict[str, list[Word]]) -> str:
    return f"""# bash completion of trimtab; see `trimtab completion --help` for where it goes
{_named_lists("{}='{}'")}
_trimtab_words() {{ COMPREPLY+=($(compgen -W "$*" -- "$current")); }}
_trimtab_files() {{
  compopt -o filenames 2>/dev/null
  local IFS=$'\\n'
  COMPREPLY+=($(compgen "$1" -- "$current"))
}}
_trimtab() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  # --option=value comes as three words
  if [[ "$previous" == "=" ]]; then previous="${{COMP_WORDS[COMP_CWORD-2]}}"; fi
  if [[ "$current" == "=" ]]; then current=""; fi
  COMPREPLY=()
  if (( COMP_CWORD == 1 )); then _trimtab_words {" ".join(HELP)} --help --version; return; fi
  case "${{COMP_WORDS[1]}}" in
{_cases(commands, "bash", "    ")}
  esac
}}
complete -F _trimtab trimtab
"""


def _zsh(commands: dict[str, list[Word]]) -> str:
    return f"""#compdef trimtab
# zsh completion of trimtab; see `trimtab completion --help` for where it goes
{_named_lists("{}='{}'")}
_trimtab() {{
  local current="${{words[CURRENT]}}" previous="${{words[CURRENT-1]}}"
  if (( CURRENT == 2 )); then compadd -- {" ".join(HELP)} --help --version; return; fi
  case "${{words[2]}}" in
{_cases(commands, "zsh", "    ")}
  esac
}}
if [[ "$funcstack[1]" == _trimtab ]]; then _trimtab "$@"; else compdef _trimtab trimtab; fi
"""


def _fish(commands: dict[str, list[Word]]) -> str:
    lines = [
        "# fish completion of trimtab; see `trimtab completion --help` for where it goes",
        _named_lists("set -g {} {}"),
        "complete -c trimtab -f",
    ]
    for command, about in HELP.items():
        lines.append(f"complete -c trimtab -n __fish_use_subcommand -a {command} -d {shlex.quote(about)}")
    following = _following()
    for command, words in commands.items():
        for word in words:
            lines.append(_fish_line(command, word))
        for word in following.get(command, {}).values():
            both = "; and ".join(f"__fish_seen_subcommand_from {subcommand}" for subcommand in (command, word.name))
            lines.append(f"complete -c trimtab -n '{both}'{_fish_offer(word)}")
    return "\n".join(lines) + "\n"


def _fish_line(command: str, word: Word) -> str:
    line = f"complete -c trimtab -n '__fish_seen_subcommand_from {command}'"
    if word.name.startswith("-"):
        line += f" -l {word.name.lstrip('-')} -d {shlex.quote(word.help)}"
        if word.kind == "files":
            line += " -r"
        elif word.kind != "flag" and word.values != SWITCH:
            line += " -x"  # a value must follow, and it is no file
    return line + _fish_offer(word)


def _fish_offer(word: Word) -> str:
    if word.kind in ("files", "directories"):
        return " -F" if word.kind == "files" else " -a '(__fish_complete_directories)'"
    if word.kind == "list":
        return f" -a '$_trimtab_{word.values[0]}'"
    return f" -a {shlex.quote(' '.join(word.values))}" if word.values else ""
