"""Episodes played with the policy of a run, as pictures: a GIF, an MP4 or a window.

Gymnasium draws the environments that it knows. Of the others, those whose observations are images are shown as the
policy sees them; the rest cannot be drawn.
"""

from __future__ import annotations

import colorsys
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from trimtab.config import Config, ConfigError
from trimtab.core.errors import MissingPackage, RunError
from trimtab.core.json_values import JsonMapping
from trimtab.training.numpy_policy import Policy
from trimtab.training.records import EnvironmentRecord
from trimtab.training.run import Run

LEAST_SIDE = 256  # small images are enlarged to this
SPEED, FASTEST = 30, 50  # frames per second: where the environment has no rate of its own, and at most

Frame = UInt8[np.ndarray, "H W 3"]


class _Moment(NamedTuple):
    """One step: a picture of it, its reward, and whether it ends the episode."""

    frame: Frame
    reward: float
    done: bool


@dataclass(frozen=True, eq=False)
class Playback(JsonMapping):
    """What was played.

    Args:
        run: path of the run.
        step: step of the checkpoint that played.
        returns: return of each episode.
        shown: how the environment was drawn.
        out: the file, or "window".
        frames: number of pictures.
        cut: whether the last episode was longer than what is shown.
    """

    run: str
    step: int
    episodes: int
    returns: tuple[float, ...]
    shown: str
    out: str
    frames: int
    cut: bool


def watch(
    run: Run,
    out: Path | None,
    *,
    episodes: int = 1,
    step: int | None = None,
    seed: int = 0,
    sample: bool = False,
    longest: int = 500,
) -> Playback:
    """Play episodes and record them.

    Args:
        run: the run whose policy plays.
        out: the file to write (.gif or .mp4); None for a window.
        episodes: how many.
        step: step of the checkpoint; None for the last.
        seed: seed of the first episode.
        sample: draw actions as in training, instead of the most likely ones.
        longest: steps of an episode to show, at most.

    Returns:
        Where the pictures are, and the returns of the episodes.
    """
    for name, value, least in (("episodes", episodes, 1), ("seed", seed, 0), ("steps", longest, 1)):
        if value < least:
            raise ConfigError(name, value, f"must be at least {least}; nearest: {least}")
    if out is not None and out.suffix not in FILES:
        raise ConfigError("out", str(out), f"must end in {' or '.join(FILES)}; nearest: {out.with_suffix('.gif')}")
    _prepare_pygame()
    screen = _Window() if out is None else FILES[out.suffix](out)
    policy, scene = run.policy(step, sample, seed), _scene_of(run)
    returns: list[float] = []
    try:
        for episode in range(episodes):
            total, done = 0.0, False
            for moment in scene.play(policy, seed + episode, longest):
                screen.add(moment.frame, scene.rate)
                total, done = total + moment.reward, moment.done
            returns.append(total)
        screen.close()
    finally:
        scene.close()
    return Playback(
        run=str(run.path),
        step=policy.step,
        episodes=episodes,
        returns=tuple(returns),
        shown=scene.shown,
        out=str(out) if out else "window",
        frames=screen.count,
        cut=not done,
    )


_DRIVER = os.environ.get("SDL_VIDEODRIVER")


def _has_display() -> bool:
    """Whether a window can be opened here."""
    named = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return sys.platform in ("darwin", "win32") or named or bool(_DRIVER)


def _prepare_pygame() -> None:
    """pygame, which draws for Gymnasium, looks for loudspeakers and a screen, and complains where there are none."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if not _has_display():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


# What is drawn ----------------------------------------------------------------------------------------------


def _refusal(env_id: str, why: str) -> RunError:
    return RunError(f"{env_id} cannot be watched: {why}")


def _scene_of(run: Run) -> _GymnasiumScene | _ObservationScene:
    """The environment of a run in a form that can be drawn."""
    import gymnasium

    config, env = run.config, run.files.manifest().environment or EnvironmentRecord()
    if config.env_id in gymnasium.registry or ":" in config.env_id:
        return _GymnasiumScene(config, env)
    if env.observation is not None and len(env.observation.shape) == 3:
        return _ObservationScene(config)
    raise _refusal(config.env_id, "Gymnasium cannot draw it, and its observations are not images")


class _GymnasiumScene:
    """One environment as Gymnasium draws it."""

    shown = "drawn by Gymnasium"

    def __init__(self, config: Config, env: EnvironmentRecord):
        from trimtab.envs.layout import actions_of, layout_of_space

        self._env_id = config.env_id
        self._env = _drawn_environment(config, env)
        self._layout = layout_of_space(config.env_id, self._env.observation_space)
        trained = env.observation.shape if env.observation else tuple(self._layout.shape)
        if self._layout.shape != trained:
            self._env.close()
            other = f"Gymnasium's observes {self._layout.shape}, the policy was trained on {trained}"
            raise _refusal(config.env_id, other)
        self._actions = actions_of(config.env_id, self._env.action_space)
        self.rate = min(int(self._env.metadata.get("render_fps") or SPEED), FASTEST)

    def play(self, policy: Policy, seed: int, longest: int) -> Iterator[_Moment]:
        """One episode, or its first `longest` steps."""
        obs, _ = self._run("reset", partial(self._env.reset, seed=seed))
        yield _Moment(self._picture(), 0.0, False)
        for _ in range(longest):
            action = self._actions.convert(policy(self._layout.convert(_batched(obs))[0])[None])[0]
            obs, reward, terminated, truncated, _ = self._run("step", partial(self._env.step, action))
            yield _Moment(self._picture(), float(np.reshape(reward, ())), bool(terminated or truncated))
            if terminated or truncated:
                return

    def _picture(self) -> Frame:
        image = self._run("render", self._env.render)
        if image is None or np.ndim(image) != 3:
            raise _refusal(self._env_id, "render does not return an image")
        return np.asarray(image, np.uint8)

    def _run(self, what: str, work: Callable[[], Any]) -> Any:
        from trimtab.envs.own_environments import describe_error

        try:
            return work()
        except Exception as error:  # whatever the environment's own code raises
            raise _refusal(self._env_id, f"{what} raised {describe_error(error)}") from None

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def _drawn_environment(config: Config, env: EnvironmentRecord) -> Any:
    """A Gymnasium environment that renders arrays."""
    import gymnasium

    from trimtab.envs.backends import BACKENDS
    from trimtab.envs.layout import without_precision_warnings
    from trimtab.envs.own_environments import describe_error, registered, takes

    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo would look for a screen
    options = dict(config.env_kwargs)
    is_vector = options.pop("vectorization", None) == "vector_entry_point"
    if options and not is_vector and not BACKENDS[env.backend or "gymnasium"].drawn_by_gymnasium:
        raise _refusal(config.env_id, f"env_kwargs={options} are not Gymnasium's own options")
    try:
        spec = registered(config.env_id)
        is_vector = is_vector or spec.entry_point is None
        if not is_vector:
            if takes(spec.entry_point, "render_mode"):  # one that does not may draw all the same
                options["render_mode"] = "rgb_array"
            with without_precision_warnings():
                limit = env.time_limit
                return gymnasium.make(spec, max_episode_steps=limit, disable_env_checker=True, **options)
    except Exception as error:  # whatever its constructor raises
        raise _refusal(config.env_id, f"Gymnasium cannot draw it ({describe_error(error)})") from None
    raise _refusal(config.env_id, "it is a vector environment")


def _batched(obs: Any) -> Any:
    """A batch of one observation; of a Dict or Tuple, every array in it."""
    if isinstance(obs, dict):
        return {key: _batched(value) for key, value in obs.items()}
    return tuple(map(_batched, obs)) if isinstance(obs, tuple) else np.asarray(obs)[None]


class _ObservationScene:
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

    def play(self, policy: Policy, seed: int, longest: int) -> Iterator[_Moment]:
        """One episode, or its first `longest` steps."""
        for moment in self._compiled(policy, seed) if self._env.spec.compiled else self._host(policy, seed):
            yield moment
            longest -= 1
            if moment.done or longest < 0:
                return

    def _compiled(self, policy: Policy, seed: int) -> Iterator[_Moment]:
        import jax

        key, step = jax.random.key(seed), jax.jit(self._env.step)
        state, obs = jax.jit(self._env.reset)(key)
        yield _Moment(_picture(np.asarray(obs)), 0.0, False)
        kind = np.int32 if policy.discrete else np.float32
        for t in range(sys.maxsize):
            state, out = step(jax.random.fold_in(key, t), state, policy(np.asarray(obs)).astype(kind))
            obs = out.obs
            done = bool(out.terminated | out.truncated)
            yield _Moment(_picture(np.asarray(out.next_obs)), float(out.reward), done)

    def _host(self, policy: Policy, seed: int) -> Iterator[_Moment]:
        obs = self._env.reset(seed)
        yield _Moment(_picture(obs[0]), 0.0, False)
        while True:
            out = self._env.step(policy(obs))
            obs = out.obs
            done = bool(out.terminated[0] or out.truncated[0])
            yield _Moment(_picture(out.next_obs[0]), float(out.reward[0]), done)

    def close(self) -> None:
        """Close an environment that holds something open."""
        if not self._env.spec.compiled:
            self._env.close()


def _picture(obs: Shaped[np.ndarray, "H W C"]) -> Frame:
    """An observation as colours, enlarged by whole factors.

    Args:
        obs: an image of bytes, of which one channel or the newest of several is drawn in grey, or channels of marks.

    Returns:
        The picture; marks have one colour for each channel.
    """
    if obs.dtype == np.uint8:
        frame = obs if obs.shape[-1] == 3 else np.repeat(obs[..., -1:], 3, axis=-1)
    else:
        frame = _marks(obs)
    factor = max(1, -(-LEAST_SIDE // min(frame.shape[:2])))
    return frame.repeat(factor, axis=0).repeat(factor, axis=1)


def _marks(obs: Float[np.ndarray, "H W C"]) -> Frame:
    """Where channels overlap the last one is on top."""
    channels = obs.shape[-1]
    frame = np.full((*obs.shape[:2], 3), 24, np.uint8)
    for k in range(channels):
        colour = colorsys.hsv_to_rgb(k / channels, 0.65, 0.95)
        frame[obs[..., k] > 0] = np.round(255 * np.asarray(colour)).astype(np.uint8)
    return frame


# Where it is shown ------------------------------------------------------------------------------------------


class _Gif:
    """An animation; one episode follows another."""

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
    """H.264, encoded by the ffmpeg program."""

    def __init__(self, path: Path):
        self._path, self._ffmpeg, self.count = path, _ffmpeg(), 0
        self._pipe: Any = None  # the program, once the size of a frame is known

    def add(self, frame: Frame, rate: int) -> None:
        self._pipe = self._pipe or self._started(frame, rate)
        self._pipe.stdin.write(np.ascontiguousarray(frame).tobytes())
        self.count += 1

    def _started(self, frame: Frame, rate: int) -> subprocess.Popen[bytes]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        height, width, _ = frame.shape
        source = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(rate), "-i", "-")
        result = ("-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", str(self._path))
        return subprocess.Popen([self._ffmpeg, "-y", "-loglevel", "error", *source, *result], stdin=subprocess.PIPE)

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
    return str(imageio_ffmpeg.get_ffmpeg_exe())


class _Window:
    """A window, where there is a display; closing it ends the show."""

    def __init__(self) -> None:
        if not _has_display():
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


FILES: dict[str, Callable[[Path], _Gif | _Video]] = {".gif": _Gif, ".mp4": _Video}
