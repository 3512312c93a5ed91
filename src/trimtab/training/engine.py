"""Compiled iterations: several per call on compiled environments, one at a time around host environments."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from trimtab.config import Config
from trimtab.envs.base import derived_seed
from trimtab.training import device, rollout
from trimtab.training.algorithm import Algorithm, hypers_of
from trimtab.training.program_cache import Flat, exported
from trimtab.training.rollout import Carry, Rollout
from trimtab.training.state import Hypers, Info, State

Waiting = Callable[[], Info]  # blocks until iterations are done; their Infos, stacked on a leading axis


class Engine(Protocol):
    """`launch` sets up to `count` iterations (at most `chunk`) going and takes the buffers of the state it is given."""

    algorithm: Algorithm
    hypers: Hypers
    compile_seconds: float
    chunk: int
    exact: bool  # whether a resumed run continues bit for bit
    ahead: bool  # whether `launch` returns before its iterations are done
    reusable: bool  # whether `reconfigure` can give it another run

    def reconfigure(self, config: Config) -> None: ...

    def init(self, seed: int) -> State: ...

    def template(self, seed: int) -> State: ...  # as `init`, to be filled from a checkpoint

    def compile(self, state: State) -> None: ...

    def launch(self, state: State, count: int) -> tuple[State, Waiting]: ...

    def restart_episodes(self, state: State, iteration: int) -> State: ...

    def close(self) -> None: ...


def advance(engine: Engine, state: State, count: int) -> tuple[State, Info]:
    """Up to `count` iterations, done."""
    state, wait = engine.launch(state, count)
    return state, wait()


def strip_weak_types(tree):
    """The same arrays without weak types, so that the first call's types are every call's."""
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, x.dtype) if hasattr(x, "weak_type") else x, tree)


class CompiledEngine:
    """Everything in one program: the loop over iterations too, with a traced count, so that stopping at any iteration
    (a checkpoint, the end, a resume) runs the same compiled code and gives the same bits."""

    exact = ahead = reusable = True

    def __init__(self, algorithm: Algorithm):
        self.algorithm, self.hypers = algorithm, hypers_of(algorithm.config)
        self.chunk = max(1, min(1024, 65_536 // algorithm.config.batch))
        self.compile_seconds = 0.0
        self._init: Any = None  # compiled when first needed
        self._run: Any = None

    def reconfigure(self, config: Config) -> None:
        """Serve another configuration of the same shape: its numbers are swapped in, nothing compiles again."""
        self.algorithm.config, self.hypers, self.compile_seconds = config, hypers_of(config), 0.0

    def init(self, seed: int) -> State:
        key = jax.random.key_data(jax.random.key(seed))
        if self._init is None:
            begin = lambda key, hypers: strip_weak_types(self.algorithm.init(jax.random.wrap_key_data(key), hypers))
            flat = self._flat = Flat(jax.eval_shape(begin, key, self.hypers))
            begin_flat = lambda key, hypers: flat.flatten(begin(key, hypers))
            self._init = exported("init", self.algorithm.config.shape, begin_flat, (key, self.hypers))
        return self._flat.unflatten(self._init(key, self.hypers))

    def template(self, seed: int) -> State:
        return self.init(seed)

    def restart_episodes(self, state: State, iteration: int) -> State:
        return state

    def compile(self, state: State) -> None:
        if self._run is not None:
            return
        start_time = time.perf_counter()
        self._flat = Flat(state)

        def loop(count, hypers, *leaves):
            state, infos, done = self._loop(self._flat.unflatten(leaves), hypers, count)
            return self._flat.flatten(state), infos._asdict(), done

        leaves = self._flat.flatten(state)
        arguments = (jnp.int32(1), self.hypers, *leaves)
        donated = tuple(range(2, len(arguments)))  # the state's buffers become the next state's
        self._run = exported("loop", (*self.algorithm.config.shape, self.chunk), loop, arguments, donated)
        self.compile_seconds += time.perf_counter() - start_time

    def _loop(self, state: State, hypers, count):
        _, info = jax.eval_shape(self.algorithm.step, state, hypers)
        room = jax.tree.map(lambda x: jnp.zeros((self.chunk, *x.shape), x.dtype), info)

        def going(carry):
            done, _, _, healthy = carry
            return (done < count) & healthy

        def iterate(carry):
            done, state, infos, _ = carry
            state, info = self.algorithm.step(state, hypers)
            infos = jax.tree.map(lambda room, x: room.at[done].set(x), infos, info)
            return done + 1, state, infos, jnp.stack(list(info.finite.values())).all()

        done, state, infos, _ = jax.lax.while_loop(going, iterate, (0, state, room, jnp.ones((), bool)))
        return strip_weak_types(state), infos, done

    def launch(self, state: State, count: int) -> tuple[State, Waiting]:
        leaves, infos, done = self._run(jnp.int32(min(count, self.chunk)), self.hypers, *self._flat.flatten(state))
        return self._flat.unflatten(leaves), lambda: jax.tree.map(lambda x: np.asarray(x)[: int(done)], Info(**infos))

    def close(self) -> None:
        pass


class HostEngine:
    """Collection around host environments, learning compiled: the same `learn` as everywhere.

    Environments that a compiled program can step are stepped by one; the others in Python.
    """

    exact = ahead = reusable = False
    chunk = 1
    _draw: Callable[..., Any]  # compiled by `compile`, as is `_learn`
    _learn: Callable[..., Any]

    def __init__(self, algorithm: Algorithm):
        self.algorithm, self.hypers = algorithm, hypers_of(algorithm.config)
        self.compile_seconds = 0.0
        self._staggers = algorithm.config.stagger_resets
        self._stream: Any = None
        # Stepping in Python is one call per step: hand it only the number it needs.
        self._act_hypers = {k: self.hypers[k] for k in ("clip_obs",) if algorithm.config.norm_obs}

    def reconfigure(self, config: Config) -> None:
        raise RuntimeError("host environments belong to one run")

    def _carry(self, seed: int) -> Carry:
        carry = rollout.begun(self.algorithm.env.reset(seed))
        return self._stagger(carry, seed) if self._staggers else carry

    def _begun(self, seed: int) -> Carry:
        """New episodes, where a program takes them from."""
        return jax.tree.map(jnp.asarray, self._carry(seed))

    def _stagger(self, carry: Carry, seed: int) -> Carry:
        """Random actions, each environment being reset at a random moment, so that episodes are out of step."""
        config, env = self.algorithm.config, self.algorithm.env
        longest = env.spec.time_limit or config.num_steps
        phase = np.random.default_rng(seed).integers(0, longest, env.num_envs)
        sample = jax.jit(lambda key: self.algorithm.dist.uniform(key, env.num_envs))
        sums: tuple[Any, Any] = carry.episode_return, carry.episode_length
        total, length = sums
        for t in range(longest):
            out = env.step(np.asarray(sample(jax.random.fold_in(jax.random.key(seed), t))))
            obs, over = out.obs, out.terminated | out.truncated | (phase == t)
            total, length = total + np.where(out.valid, out.reward, 0.0), length + out.valid
            total, length = (np.where(over, 0.0, x).astype(np.float32) for x in (total, length))
            if (phase == t).any():
                obs = env.reset_some(phase == t)
        return Carry((), obs, total, length)

    def init(self, seed: int) -> State:
        return strip_weak_types(jax.jit(self.algorithm.init)(jax.random.key(seed), self.hypers, self._begun(seed)))

    def template(self, seed: int) -> State:
        """Without staggering episodes, which may take longer than all that follows."""
        self._staggers = False
        try:
            return self.init(seed)
        finally:
            self._staggers = self.algorithm.config.stagger_resets

    def restart_episodes(self, state: State, iteration: int) -> State:
        """Environment states cannot be saved: after a resume, episodes start over."""
        carry = self._begun(derived_seed(self.algorithm.config.seed, iteration))
        scale = state.reward_scale
        if scale is not None:
            scale = scale._replace(total=jnp.zeros_like(scale.total))
        return replace(state, env=carry, reward_scale=scale)

    def compile(self, state: State) -> None:
        start_time = time.perf_counter()
        algorithm = self.algorithm
        self._stream = algorithm.env.stream()
        self._draw = jax.jit(algorithm.noise).lower(state.key).compile()
        noise = jax.eval_shape(algorithm.noise, state.key)[1]
        self._collect = (self._compile_step if self._stream is None else self._compile_stream)(state, noise)
        learn = jax.jit(lambda *arguments: strip_weak_types(algorithm.learn(*arguments)), donate_argnums=0)
        self._learn = learn.lower(state, self._abstract_rows(), self.hypers).compile()
        self.compile_seconds += time.perf_counter() - start_time

    def _compile_step(self, state: State, noise) -> Callable[..., tuple[Carry, Rollout]]:
        """One compiled call per step, the loop in Python."""
        algorithm = self.algorithm
        step_noise = jax.ShapeDtypeStruct(noise.shape[1:], noise.dtype)
        arguments = state.params, state.obs_stats, state.env.obs, step_noise, self._act_hypers
        step = jax.jit(algorithm.act).lower(*arguments).compile()

        def collect(params, obs_stats, carry, noise, hypers):
            act = lambda obs, noise: step(params, obs_stats, obs, noise, hypers)
            collected = rollout.collect_host(algorithm.env, algorithm.dist, act, np.asarray(noise), carry)
            return jax.tree.map(jnp.asarray, collected)

        return collect

    def _compile_stream(self, state: State, noise) -> Callable[..., tuple[Carry, Rollout]]:
        """The whole loop in one program. It holds addresses of this process, so it is kept out of the cache."""
        collect = jax.jit(partial(self.algorithm.collect_stream, self._stream))
        with device.not_cached():
            return collect.lower(state.params, state.obs_stats, state.env, noise, self._act_hypers).compile()

    def _abstract_rows(self) -> Rollout:
        """Shapes and types of a rollout, to compile before the first one is there."""
        config, batch = self.algorithm.config, self.algorithm.abstract_batch()
        lead = (config.num_steps, config.num_envs)
        array: Any = jax.ShapeDtypeStruct  # in place of arrays
        obs = array((*lead, *batch.obs.shape[1:]), self.algorithm.env.spec.obs_dtype)
        action, dist = (array((*lead, *x.shape[1:]), x.dtype) for x in (batch.action, batch.dist))
        number, flag = array(lead, jnp.float32), array(lead, jnp.bool_)
        value = number if self.algorithm.values_while_acting else None
        return Rollout(obs, obs, action, dist, number, number, flag, flag, flag, number, number, value)

    def launch(self, state: State, count: int) -> tuple[State, Waiting]:
        if self._stream is not self.algorithm.env.stream():
            raise RuntimeError("environments were reset after compiling")
        key, noise = self._draw(state.key)
        carry, rows = self._collect(state.params, state.obs_stats, state.env, noise, self._act_hypers)
        state, info = self._learn(replace(state, key=key, env=carry), rows, self.hypers)
        info = jax.tree.map(lambda x: np.asarray(x)[None], info)
        return state, lambda: info

    def close(self) -> None:
        self.algorithm.env.close()
