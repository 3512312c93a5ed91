"""Stable-Baselines3 2.9, and RL Zoo's files. `batch_size` is the minibatch; the value loss is the squared error.

Its logs are progress.csv or TensorBoard's, with Monitor's files, saved models and evaluations beside them.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.advise.evidence import NO_NUMBERS, Action, Numbers
from trimtab.config import Config
from trimtab.core import reading
from trimtab.core.errors import UnreadableFile
from trimtab.libraries.common.foreign_options import (
    CLIPS_VALUE_ALONE,
    GRADIENT_NORM,
    NOT_SET,
    PER_MINIBATCH,
    Option,
    Translated,
    Values,
    same,
    tidy,
)
from trimtab.libraries.common.library import Details, Library, LogFormat, NetworkNames, Sources
from trimtab.libraries.common.settings_text import dump

SAME = ("approx_kl", "clip_fraction", "entropy_loss", "explained_variance", "learning_rate", "policy_gradient_loss")
UPDATES, RANGE = "train/n_updates", "train/clip_range"
TORCH_NAMES = {"tanh": "Tanh", "relu": "ReLU", "elu": "ELU", "silu": "SiLU", "gelu": "GELU"}
READ = {"net_arch", "pi", "vf", "activation_fn", "log_std_init", "ortho_init"}  # out of policy_kwargs
SCHEDULES = (("learning_rate", "lr_schedule"), ("clip_range", "clip_range"), ("clip_range_vf", "clip_range_vf"))


# Options ----------------------------------------------------------------------------------------------------


def _scheduled(name: str, falling: str) -> Option:
    """A number, or RL Zoo's lin_3e-4, which falls linearly to 0."""

    def read(value: Any, to: Translated) -> None:
        text = str(value)
        to.fields[name] = float(text.removeprefix("lin_"))
        if text.startswith("lin_"):
            to.fields[falling] = "linear"

    def write(config: Config) -> Any:
        value = getattr(config, name)
        return f"lin_{tidy(value)!r}" if getattr(config, falling) == "linear" else value

    return Option(name, read=read, write=write)


def _vec_normalize(value: Any, to: Translated) -> None:
    """RL Zoo: true, or the keyword arguments of VecNormalize as text."""
    for name in ("norm_obs", "norm_reward"):
        to.fields[name] = bool(value) and not re.search(rf"{name}['\"]?\s*[:=]\s*False", str(value))


def _vec_normalize_of(config: Config) -> Any:
    if not (config.norm_obs or config.norm_reward):
        return NOT_SET
    chosen = {"norm_obs": config.norm_obs, "norm_reward": config.norm_reward}
    return True if all(chosen.values()) else str(chosen)


def _policy_kwargs(value: Any, to: Translated) -> None:
    """Widths and activation out of policy_kwargs, given as a mapping or as RL Zoo's text."""
    text = str(value)
    widths = [[int(n) for n in re.findall(r"\d+", group)] for group in re.findall(r"\[([\d,\s]+)\]", text)]
    if widths and "net_arch" in text:
        to.fields["hidden_sizes"] = widths[0]
        if any(other != widths[0] for other in widths):
            to.notes.append(f"hidden_sizes: {widths} there; both networks have those of the policy here")
    for name in TORCH_NAMES:
        if re.search(rf"activation_fn[^,)]*\b{name}\b", text, re.IGNORECASE):
            to.fields["activation"] = name
    if "activation_fn" in text and "activation" not in to.fields:
        to.left_out["policy_kwargs: activation_fn"] = "trimtab does not have this activation"
    deviation = re.search(r"log_std_init['\"]?\s*[:=]\s*(-?[\d.]+)", text)
    if deviation:
        to.fields["log_std_init"] = float(deviation[1])
    if re.search(r"ortho_init['\"]?\s*[:=]\s*False", text):
        to.fields["ortho_init"] = False
    named = set(re.findall(r"['\"]?(\w+)['\"]?\s*[:=]", text))
    for name in sorted(named - READ):
        to.left_out[f"policy_kwargs: {name}"] = "has no counterpart here"
    if not named or ("net_arch" in named and not widths):
        to.left_out["policy_kwargs"] = f"{text!r} cannot be read"


def _policy_kwargs_of(config: Config) -> Any:
    """What differs from the library's defaults, as RL Zoo's text."""
    parts = []
    if config.hidden_sizes is not None:
        widths = list(config.hidden_sizes)
        parts.append(f"net_arch=dict(pi={widths}, vf={widths})")
    if config.activation != "tanh":
        parts.append(f"activation_fn=nn.{TORCH_NAMES[config.activation]}")
    parts += [f"log_std_init={config.log_std_init!r}"] if config.log_std_init else []
    parts += [] if config.ortho_init else ["ortho_init=False"]
    return f"dict({', '.join(parts)})" if parts else NOT_SET


def _finish(to: Translated) -> None:
    """A minibatch larger than the batch is the whole batch; RL Zoo's VecNormalize has the discount of the training."""
    if to.fields.get("norm_reward"):
        to.fields["norm_reward_gamma"] = to.fields.get("gamma", Config.norm_reward_gamma)
    size, envs, steps = (to.fields.get(name) for name in ("minibatch_size", "num_envs", "num_steps"))
    if isinstance(size, int) and isinstance(envs, int) and isinstance(steps, int) and size > envs * steps:
        to.fields["minibatch_size"] = envs * steps
        to.notes.append(f"minibatch_size: batch_size {size} is more than the batch, so the whole batch is used")


OPTIONS = {
    "n_envs": Option("num_envs", default=1),
    "n_timesteps": Option("total_timesteps"),
    "n_steps": Option("num_steps", default=2048),
    "batch_size": Option("minibatch_size", default=64),
    "max_grad_norm": GRADIENT_NORM,
    "n_epochs": Option("update_epochs", default=10),
    **same("gamma", "gae_lambda", "total_timesteps", "seed", "vf_coef", "target_kl"),
    "learning_rate": _scheduled("learning_rate", "anneal_lr").otherwise(3e-4),
    "clip_range": _scheduled("clip_coef", "clip_anneal"),
    "clip_range_vf": CLIPS_VALUE_ALONE,
    "ent_coef": Option("ent_coef", default=0.0),
    "normalize_advantage": PER_MINIBATCH.otherwise(True),
    "normalize": Option(read=_vec_normalize, write=_vec_normalize_of),
    "policy_kwargs": Option(read=_policy_kwargs, write=_policy_kwargs_of),
    "policy": Option(absent="the network follows from the observation and --network"),
    "use_sde": Option(absent="state-dependent exploration is not implemented"),
    "sde_sample_freq": Option(absent="state-dependent exploration is not implemented"),
    "env_wrapper": Option(absent="wrappers are Python code; register the wrapped environment"),
    "vec_env_wrapper": Option(absent="wrappers are Python code; register the wrapped environment"),
    "frame_stack": Option(absent="frames are not stacked"),
    "env_kwargs": Option(absent="give --env-kwargs"),
    "callback": Option(absent="callbacks are Python code"),
}


def _zoo(values: Values, config: Config) -> str:
    """An entry of RL Zoo's ppo.yml; the seed is an option of its command."""
    return dump({config.env_id: {"policy": "MlpPolicy", **{k: v for k, v in values.items() if k != "seed"}}})


def _script(values: Values, config: Config) -> str:
    """A script that trains."""
    rest = dict(values)
    env = f"make_vec_env({config.env_id!r}, n_envs={rest.pop('n_envs')}, seed={rest.get('seed')!r})"
    length, normalized = rest.pop("n_timesteps", config.total_timesteps), rest.pop("normalize", None)
    lines = ["from stable_baselines3 import PPO", "from stable_baselines3.common.env_util import make_vec_env"]
    lines += ["from stable_baselines3.common.vec_env import VecNormalize"] if normalized else []
    lines += ["from torch import nn"] if "activation_fn" in str(rest.get("policy_kwargs")) else []
    lines += ["", f"env = {env}"]
    if normalized:
        chosen = f"norm_obs={config.norm_obs}, norm_reward={config.norm_reward}, gamma={config.gamma!r}"
        lines.append(f"env = VecNormalize(env, {chosen})")
    lines += ["model = PPO(", '    "MlpPolicy",', "    env,"]
    lines += [f"    {name}={_in_python(value)}," for name, value in rest.items()]
    return "\n".join([*lines, ")", f"model.learn({length})", ""])


def _in_python(value: Any) -> str:
    """A value; RL Zoo's texts are schedules and code."""
    text = str(value)
    if text.startswith("lin_"):
        return f"lambda left: {text.removeprefix('lin_')} * left"
    return text if text.startswith("dict(") else repr(value)


# Logs -------------------------------------------------------------------------------------------------------


def _details(sources: Sources) -> Details:
    """Hyperparameters as a saved model has them, else as far as the records show them."""
    tag = "rollout/ep_rew_mean" if "rollout/ep_rew_mean" in sources.scalars else "time/fps"
    at = sources.of(tag)[0]
    details = Details(_recorded(sources), int(np.median(np.diff(at))) if len(at) > 1 else None)
    for model in sorted(sources.folder.glob("*.zip"), key=_written):
        hyperparameters, action = _saved_model(model)
        details.hyperparameters |= hyperparameters
        details.action = action or details.action
    _add_episodes(sorted(sources.folder.glob("*monitor.csv")), details)
    evaluations = sources.folder / "evaluations.npz"
    if evaluations.is_file():
        details.evaluations = _evaluations(evaluations)
    return details


def _written(file: Path) -> float:
    """When a file was written; 0 for a link that leads nowhere."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _recorded(sources: Sources) -> Values:
    """What the records themselves show: the epochs on a batch, the learning rate and the range of the clip."""
    values: Values = {}
    updates = sources.of(UPDATES)[1]
    if len(updates) > 1:
        values["n_epochs"] = max(1, round(float(np.median(np.diff(updates)))))
    for tag, name in (("train/learning_rate", "learning_rate"), (RANGE, "clip_range")):
        recorded = sources.of(tag)[1]
        if len(recorded):
            falls = "lin_" if recorded[-1] < 0.5 * recorded[0] else ""
            values[name] = f"{falls}{float(recorded[0])!r}"
    return values


def _evaluations(file: Path) -> Numbers:
    """The mean return of every evaluation that EvalCallback saved; none where that cannot be read."""
    try:
        results = reading.read_npz(file, "results")
    except UnreadableFile as error:
        reading.report(f"{error}; its evaluations are left out")
        return NO_NUMBERS
    numbers = results is not None and results.dtype.kind in "fiu" and results.ndim == 2 and results.shape[1] > 0
    return np.asarray(results, float).mean(axis=1) if numbers else NO_NUMBERS


def _saved_model(file: Path) -> tuple[Values, Action | None]:
    """What a saved model says as plain JSON; what it pickles is not opened.

    Args:
        file: a .zip that `model.save` wrote, or any other archive.

    Returns:
        Hyperparameters and the action space; nothing for another archive.
    """
    try:
        text = reading.read_zip_member(file, "data")
        data = reading.parse_json(text) if text is not None else None
    except (UnreadableFile, ValueError) as error:
        reading.report(f"{error}; the saved model is left out")
        return {}, None
    if not isinstance(data, dict) or "n_steps" not in data:
        return {}, None
    return _hyperparameters(data), _action(data.get("action_space"))


def _action(space: Any) -> Action | None:
    """The actions of a Gymnasium space as Stable-Baselines3 writes it in JSON."""
    if not isinstance(space, dict):
        return None
    if "n" in space:
        digits = re.sub(r"\D", "", str(space["n"])[:20])
        return Action("discrete", int(digits)) if digits and int(digits) else None
    shape = space.get("_shape")
    if not isinstance(shape, list) or not 0 < len(shape) < 9:
        return None
    usable = all(type(n) is int and 0 < n < 10**6 for n in shape)
    return Action("continuous", math.prod(shape)) if usable else None


def _hyperparameters(data: Values) -> Values:
    values: Values = {k: v for k, v in data.items() if k in OPTIONS and isinstance(v, int | float | bool)}
    values["total_timesteps"] = data.get("_total_timesteps", 0)
    kwargs = data.get("policy_kwargs")
    activation = kwargs.get("activation_fn") if isinstance(kwargs, dict) else None  # as text, beside what is pickled
    values |= {"policy_kwargs": {"activation_fn": activation}} if isinstance(activation, str) else {}
    for name, key in SCHEDULES:
        text = str((data.get(key) or {}).get("value_schedule")) if isinstance(data.get(key), dict) else ""
        if number := re.search(r"(?:Constant|Linear)Schedule\((?:val|start)=([^,)]+)", text):
            values[name] = f"{'lin_' if 'Linear' in text else ''}{number[1]}"
    return values


def _add_episodes(files: list[Path], details: Details) -> None:
    """Single episodes out of Monitor's files, one for each environment; steps of all environments together."""
    parts = []
    for file in files:
        try:
            details.env_id = _id_in(file) or details.env_id
            episodes = np.array(reading.read_csv_rows(file, _episode), float).reshape(-1, 2)
        except UnreadableFile as error:
            reading.report(f"{error}; its episodes are left out")
            continue
        parts.append(np.column_stack([np.cumsum(episodes[:, 1]) * len(files), episodes]))
    if parts and len(rows := np.concatenate(parts)):
        rows = rows[np.lexsort(rows.T[::-1])]
        details.steps, details.returns, details.lengths = rows[:, 0].astype(int), rows[:, 1], rows[:, 2].astype(int)


def _id_in(file: Path) -> str | None:
    """The environment that the first line of a Monitor file names."""
    with reading.open_regular(file) as lines:
        header = lines.readline(reading.MOST_LINE)
    try:
        about = reading.parse_json(header[1:]) if header.startswith(b"#") else {}
    except ValueError:
        reading.report(f"{file}: its first line is damaged; the environment is not known from it")
        return None
    name = about.get("env_id") if isinstance(about, dict) else None
    return name if isinstance(name, str) else None


def _episode(row: dict[str, str]) -> tuple[float, float]:
    """Return and length of an episode; ValueError for what is none."""
    total, length = float(row.get("r", "")), int(row.get("l", ""))
    if not math.isfinite(total) or not 0 < length < 2**53:
        raise ValueError
    return total, float(length)


LIBRARY = Library(
    name="sb3",
    title="Stable-Baselines3",
    options=OPTIONS,
    fixed={"norm_adv_ddof": 1},
    finish=_finish,
    forms={"python": _script, "yaml": _zoo},
    saved=lambda file: _saved_model(file)[0],
    log=LogFormat(
        marks=(UPDATES, RANGE, "train/clip_fraction"),
        names={
            **{f"train/{name}": f"train/{name}" for name in (*SAME, "value_loss")},
            **{f"rollout/ep_{name}_mean": f"rollout/ep_{name}_mean" for name in ("rew", "len")},
            "time/fps": "time/fps",
        },
        details=_details,
        traces=("monitor.csv", "*.monitor.csv"),
    ),
    networks=(
        NetworkNames(
            policy="mlp_extractor.policy_net",
            value="mlp_extractor.value_net",
            policy_head="action_net",
            value_head="value_net",
            log_std=("log_std",),
        ),
    ),
    phrases={
        "norm_reward": "VecNormalize(norm_reward=True)",
        "norm_obs": "VecNormalize(norm_obs=True)",
        "anneal_lr": "learning_rate=lambda left: {learning_rate:g} * left",
        "adam_eps": "policy_kwargs=dict(optimizer_kwargs=dict(eps={value:g}))",
        "adam_beta2": "policy_kwargs=dict(optimizer_kwargs=dict(betas=({adam_beta1:g}, {value:g})))",
    },
)
