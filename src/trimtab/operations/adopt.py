"""`trimtab adopt`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from trimtab.config.settings import Overrides, Settings
from trimtab.core.answers import print_json
from trimtab.core.errors import UserError
from trimtab.core.fields import ConfigError, Place, option
from trimtab.core.options import Options, given
from trimtab.envs.own_environments import Constructor
from trimtab.libraries.common.adoption import adopt_policy
from trimtab.operations.declaration import Call, Operation, operation
from trimtab.training.run import Run


@dataclass(frozen=True)
class Adopt(Overrides, Options):
    """What to adopt."""

    policy: Any
    """File of a policy: SB3's .zip, PyTorch's .pt or .pth, .safetensors or .npz of a state_dict; in Python also its
    model, module or state_dict."""
    environment: str | None = option(None, position=True, nargs="?", metavar="env")
    """Environment id, the same as env_id."""
    run_dir: Place | None = option(None, metavar="DIR")
    """Directory of the run (default: runs/ENV/ALGO-seedS-K)."""
    _: KW_ONLY
    normalizer: Any = option(None, metavar="FILE")
    """The statistics that the policy normalizes observations with, if it does (default: none): .npz with obs_mean,
    obs_var and reward_var; in Python also VecNormalize or a mapping."""
    hyperparameters: Mapping[str, Any] | None = option(None, position=True, pairs=True, metavar="FIELD=VALUE")
    """Hyperparameters of its training by their names there, for example n_steps=256; they override the model's own."""
    env: Constructor | None = option(None, shown=False)
    """A class or function that makes the environment, whose name is then `environment`."""
    quiet: bool = option(False, shown=False)
    """Do not print what was read, and what differs here."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.environment is None and "env_id" not in given(self, Settings):
            raise UserError("name its environment, for example: trimtab adopt model.zip CartPole-v1")
        if (other := given(self, Settings).get("env_id", self.environment)) != self.environment is not None:
            raise ConfigError("env_id", other, f"the environment was given twice; the other is {self.environment}")


def _show(run: Run, call: Call) -> None:
    if call.json:
        start = run.files.manifest().started_from
        print_json({"run": str(run.path), "taken": list(start.taken) if start else []})
        return
    print(f"{run.path}: now `trimtab eval`, `probe`, `watch`, `export` it, or train it on by `trimtab resume`")


def _command(declared: Operation, call: Call) -> int | None:
    """Standard error shows what was read, also beside JSON."""
    return declared.show(declared.function(call.options(quiet=call.output.quiet)), call)


@operation(
    "adopt",
    Adopt,
    _show,
    command=_command,
    epilog="Settings that neither the policy nor you give have the defaults of its library.",
)
def adopt(options: Adopt) -> Run:
    """Make a run, at step 0, of a policy with dense networks that SB3, CleanRL, rsl_rl or skrl trained.

    It can be evaluated, probed, watched, exported and, by `resume`, trained further.

    Returns:
        The run. A policy that cannot be adopted is refused, and nothing is written.
    """
    fields = given(options, Settings)
    return adopt_policy(
        options.policy,
        options.environment or fields["env_id"],
        options.run_dir,
        normalizer=options.normalizer,
        hyperparameters=options.hyperparameters,
        env=options.env,
        fields={name: value for name, value in fields.items() if name != "env_id"},
        say=(lambda text: None) if options.quiet else partial(print, file=sys.stderr),
    )
