"""Episodes played with a run's policy, as pictures: a GIF, an MP4 or a window.

Gymnasium draws the environments it knows. Of the others, those whose observations are images are shown as the policy
sees them; the rest cannot be drawn.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from trimtab.config import Config, ConfigError
from trimtab.core.errors import MissingPackage
from trimtab.training.numpy_policy import Policy
from trimtab.training.records import RunError
from trimtab.training.run import Run

FORMS = (".gif", ".mp4")
LEAST_SIDE = 256  # small images are enlarged to this
SPEED = 30  # frames per second where the environment has no rate of its own

Frame = UInt8[np.ndarray, "H W 3"]


class Moment(NamedTuple):
    """One step: a picture of it, and what it brought; `done` ends an episode."""

    frame: Frame
    reward: float
    done: bool


def watch(
    run: Run,
    out: Path | None,
    *,
    episodes: int = 1,
    step: int | None = None,
    seed: int = 0,
    sample: bool = False,
    longest: int = 500,
) -> dict[str, Any]:
    """Play `episodes` and write them to `out` (.gif or .mp4), or show them in a window if there is no `out`.

    At most `longest` steps of an episode are shown. Returns where it went and what the episodes returned.
    """
    for name, value, least in (("episodes", episodes, 1), ("seed", seed, 0), ("steps", longest, 1)):
        if value < least:
            raise ConfigError(name, value, f"must be at least {least}; nearest: {least}")
    if out is not None and out.suffix not in FORMS:
        raise ConfigError("out", str(out), f"must end in {' or '.join(FORMS)}; nearest: {out.with_suffix('.gif')}")
    _hush()
    show = _Window() if out is None else _Gif(out) if out.suffix == ".gif" else _Video(out)
    policy, scene = run.policy(step, sample, seed), scene_of(run)
    returns: list[float] = []
    try:
        for episode in range(episodes):
            total, done = 0.0, False
            for moment in scene.play(policy, seed + episode, longest):
                show.add(moment.frame, scene.rate)
                total, done = total + moment.reward, moment.done
            returns.append(total)
        show.close()
    finally:
        scene.close()
    about = {"run": str(run.path), "step": policy.step, "episodes": episodes, "returns": returns, "shown": scene.shown}
    return about | {"out": str(out) if out else "window", "frames": show.count, "cut": not done}


_DRIVER = os.environ.get("SDL_VIDEODRIVER")


def has_display() -> bool:
    """Whether a window can be opened here."""
    named = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return sys.platform in ("darwin", "win32") or named or bool(_DRIVER)


def _hush() -> None:
    """pygame, which draws for Gymnasium, looks for loudspeakers and a screen, and complains if there are none."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if not has_display():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


# What is drawn ----------------------------------------------------------------------------------------------


def scene_of(run: Run) -> Drawn | Seen:
    """The environment of a run in a form that can be looked at."""
    import gymnasium

    config, env = run.config, run.files.manifest().get("environment", {})
    if config.env_id in gymnasium.registry or ":" in config.env_id:
        return Drawn(config, env)
    if len(env.get("observation", {}).get("shape", ())) == 3:
        return Seen(config)
    raise RunError(f"{config.env_id} cannot be watched: Gymnasium does not draw it, and its observations are no images")


class Drawn:
    """One environment as Gymnasium draws it."""

    shown = "drawn by Gymnasium"

    def __init__(self, config: Config, env: dict[str, Any]):
        import gymnasium

        from trimtab.envs.backends import BACKENDS
        from trimtab.envs.layout import actions_of, layout_of_space, without_precision_warnings
        from trimtab.envs.own_environments import describe_error, registered, takes

        if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo would look for a screen
        options = dict(config.env_kwargs)
        if options.pop("vectorization", None) == "vector_entry_point":
            raise RunError(f"{config.env_id} cannot be watched: it comes as a vector of environments")
        if options and not BACKENDS[env.get("backend", "gymnasium")].drawn_by_gymnasium:
            raise RunError(f"{config.env_id} cannot be watched: env_kwargs={options} are not Gymnasium's own options")
        try:
            spec = registered(config.env_id)
            if spec.entry_point is None:
                raise RunError(f"{config.env_id} cannot be watched: it comes as a vector of environments")
            if takes(spec.entry_point, "render_mode"):  # what takes none may draw all the same
                options["render_mode"] = "rgb_array"
            with without_precision_warnings():
                gym_env = gymnasium.make(
                    spec, max_episode_steps=env.get("time_limit"), disable_env_checker=True, **options
                )
        except RunError:
            raise
        except Exception as error:  # whatever its constructor raises
            raise RunError(
                f"{config.env_id} cannot be watched: Gymnasium cannot draw it ({describe_error(error)})"
            ) from None
        self._env, self._env_id = gym_env, config.env_id
        self._layout = layout_of_space(config.env_id, gym_env.observation_space)
        trained = tuple(env.get("observation", {}).get("shape", self._layout.shape))
        if self._layout.shape != trained:
            gym_env.close()
            other = f"Gymnasium's observes {self._layout.shape}, the policy was trained on {trained}"
            raise RunError(f"{config.env_id} cannot be watched: {other}")
        self._actions = actions_of(config.env_id, gym_env.action_space)
        self.rate = min(int(gym_env.metadata.get("render_fps") or SPEED), 50)

    def play(self, policy: Policy, seed: int, longest: int) -> Iterator[Moment]:
        obs, _ = self._run("reset", lambda: self._env.reset(seed=seed))
        yield Moment(self._picture(), 0.0, False)
        for _ in range(longest):
            action = self._actions.convert(policy(self._layout.convert(_batched(obs))[0])[None])[0]
            obs, reward, terminated, truncated, _ = self._run("step", partial(self._env.step, action))
            yield Moment(self._picture(), float(np.reshape(reward, ())), bool(terminated or truncated))
            if terminated or truncated:
                return

    def _picture(self) -> Frame:
        image = self._run("render", self._env.render)
        if image is None or np.ndim(image) != 3:
            raise RunError(f"{self._env_id} cannot be watched: render does not return an image")
        return np.asarray(image, np.uint8)

    def _run(self, what: str, work: Callable[[], Any]) -> Any:
        from trimtab.envs.own_environments import describe_error

        try:
            return work()
        except Exception as error:  # whatever the environment's own code raises
            raise RunError(f"{self._env_id} cannot be watched: {what} raised {describe_error(error)}") from None

    def close(self) -> None:
        self._env.close()


def _batched(obs: Any) -> Any:
    """A batch of one observation; of a Dict or Tuple, every array in it."""
    if isinstance(obs, dict):
        return {key: _batched(value) for key, value in obs.items()}
    return tuple(map(_batched, obs)) if isinstance(obs, tuple) else np.asarray(obs)[None]


class Seen:
    """One environment as its policy sees it."""

    shown = "as the policy sees it"
    rate = 12

    def __init__(self, config: Config):
        from trimtab import envs

        self._env: Any = envs.make(
            config.env_id,
            num_envs=1,
            backend=config.backend,
            env_kwargs=config.env_kwargs,
            time_limit=config.time_limit,
            seed=config.seed,
        )

    def play(self, policy: Policy, seed: int, longest: int) -> Iterator[Moment]:
        transitions = self._compiled if self._env.spec.compiled else self._host
        yield from transitions(policy, seed, longest)

    def _compiled(self, policy: Policy, seed: int, longest: int) -> Iterator[Moment]:
        import jax

        key, step = jax.random.key(seed), jax.jit(self._env.step)
        state, obs = jax.jit(self._env.reset)(key)
        yield Moment(picture(np.asarray(obs)), 0.0, False)
        for t in range(longest):
            state, out = step(jax.random.fold_in(key, t), state, policy(np.asarray(obs)).astype(_action_type(policy)))
            obs, done = out.obs, bool(out.terminated | out.truncated)
            yield Moment(picture(np.asarray(out.next_obs)), float(out.reward), done)
            if done:
                return

    def _host(self, policy: Policy, seed: int, longest: int) -> Iterator[Moment]:
        obs = self._env.reset(seed)
        yield Moment(picture(obs[0]), 0.0, False)
        for _ in range(longest):
            out = self._env.step(policy(obs))
            obs, done = out.obs, bool(out.terminated[0] or out.truncated[0])
            yield Moment(picture(out.next_obs[0]), float(out.reward[0]), done)
            if done:
                return

    def close(self) -> None:
        if not self._env.spec.compiled:
            self._env.close()


def _action_type(policy: Policy) -> type:
    return np.int32 if policy.discrete else np.float32


def picture(obs: Shaped[np.ndarray, "H W C"]) -> Frame:
    """An observation as colours: three channels of bytes as they are, one (or the newest of several) as grey, channels
    of marks each in a colour of its own; enlarged by whole factors."""
    if obs.dtype == np.uint8:
        frame = obs if obs.shape[-1] == 3 else np.repeat(obs[..., -1:], 3, axis=-1)
    else:
        frame = _marks(obs)
    factor = max(1, -(-LEAST_SIDE // min(frame.shape[:2])))
    return frame.repeat(factor, axis=0).repeat(factor, axis=1)


def _marks(obs: Float[np.ndarray, "H W C"]) -> Frame:
    """Where channels overlap the last one is on top."""
    import colorsys

    channels = obs.shape[-1]
    colours = [colorsys.hsv_to_rgb(k / channels, 0.65, 0.95) for k in range(channels)]
    frame = np.full((*obs.shape[:2], 3), 24, np.uint8)
    for k, colour in enumerate(colours):
        frame[obs[..., k] > 0] = np.round(255 * np.asarray(colour)).astype(np.uint8)
    return frame


# Where it is shown ------------------------------------------------------------------------------------------


class _Gif:
    """An animation; frames of one episode after another."""

    def __init__(self, path: Path):
        self._path, self._rate = path, SPEED
        self._frames: list[Any] = []

    @property
    def count(self) -> int:
        return len(self._frames)

    def add(self, frame: Frame, rate: int) -> None:
        from PIL import Image

        self._rate = rate
        # 128 colours: drawings have fewer, and files are half as large.
        self._frames.append(Image.fromarray(frame).quantize(128, dither=Image.Dither.NONE))

    def close(self) -> None:
        first, *rest = self._frames
        self._path.parent.mkdir(parents=True, exist_ok=True)
        first.save(self._path, save_all=True, append_images=rest, duration=round(1000 / self._rate), loop=0)


class _Video:
    """H.264 through the ffmpeg program."""

    def __init__(self, path: Path):
        self._path, self._ffmpeg, self.count = path, _ffmpeg(), 0
        self._pipe: Any = None  # the program, once the size of a frame is known

    def add(self, frame: Frame, rate: int) -> None:
        if self._pipe is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            height, width, _ = frame.shape
            self._pipe = subprocess.Popen(
                [
                    *(self._ffmpeg, "-y", "-loglevel", "error"),
                    *("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(rate), "-i", "-"),
                    *("-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", str(self._path)),
                ],
                stdin=subprocess.PIPE,
            )
        self._pipe.stdin.write(np.ascontiguousarray(frame).tobytes())
        self.count += 1

    def close(self) -> None:
        self._pipe.stdin.close()
        if self._pipe.wait() != 0:
            raise RunError(f"ffmpeg could not write {self._path}")


def _ffmpeg() -> str:
    program = shutil.which("ffmpeg")
    if program:
        return program
    try:
        import imageio_ffmpeg
    except ImportError:
        raise MissingPackage(
            ".mp4 needs ffmpeg: install it, or pip install imageio-ffmpeg; nearest: a .gif, which needs neither"
        ) from None
    return imageio_ffmpeg.get_ffmpeg_exe()


class _Window:
    """A window of its own, where there is a display; closing it ends the show."""

    def __init__(self) -> None:
        if not has_display():
            raise RunError("there is no display for a window; leave out --window and open the .gif")
        self._screen: Any = None
        self.count = 0

    def add(self, frame: Frame, rate: int) -> None:
        import pygame

        if self._screen is None:
            pygame.display.init()
            self._screen = pygame.display.set_mode((frame.shape[1], frame.shape[0]))
            pygame.display.set_caption("trimtab watch")
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            raise KeyboardInterrupt
        self._screen.blit(pygame.surfarray.make_surface(frame.swapaxes(0, 1)), (0, 0))
        pygame.display.flip()
        self.count += 1
        time.sleep(1 / rate)

    def close(self) -> None:
        import pygame

        pygame.display.quit()
