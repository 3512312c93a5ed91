"""One run on several devices: iterations that are sharded over them, around compiled and around host environments."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trimtab.envs.base import derived_seed
from trimtab.training import rollout, sharding
from trimtab.training.algorithm import Algorithm
from trimtab.training.engine import CompiledEngine, HostEngine, Waiting, strip_weak_types
from trimtab.training.program_cache import Flat, Placement, exported
from trimtab.training.rollout import Carry, Rollout
from trimtab.training.state import Info, State


class ShardingLayout:
    """Where the parts of a run's state are, leaf by leaf as `Flat` orders them."""

    def __init__(self, algorithm: Algorithm):
        self.mesh = sharding.mesh_of(algorithm.config)
        self.everywhere = sharding.placed(self.mesh, sharding.EVERYWHERE)

    def know(self, state: State) -> None:
        """Learn the structure of the states to come."""
        self.flat, self.cuts = Flat(state), jax.tree.leaves(sharding.parts_of(state))
        self.leaves: list[jax.sharding.NamedSharding] = sharding.placed(self.mesh, self.cuts)

    def shared(self, tree: Any) -> Any:
        """Small things that every device has."""
        return jax.tree.map(lambda x: sharding.put(x, self.everywhere), tree)

    def of(self, state: State) -> list[jax.Array]:
        """The leaves of a state where they belong: a resumed or begun one comes from the host."""
        return list(map(sharding.put, self.flat.flatten(state), self.leaves))

    def same(self, tree: Any) -> Any:
        """That every leaf of a tree is on every device."""
        return jax.tree.map(lambda _: self.everywhere, tree)

    def on_each(self, program: Callable[..., Any], info: Info, *parts: Any) -> Callable[..., Any]:
        """A program of (what is everywhere, what is cut as `parts`, leaves of a state) to (leaves, Infos, a number)."""
        return jax.shard_map(
            program,
            mesh=self.mesh,
            in_specs=(sharding.EVERYWHERE, *parts, *self.cuts),
            out_specs=(self.cuts, sharding.parts_of_infos(info)._asdict(), sharding.EVERYWHERE),
            check_vma=False,  # what is equal on all devices is made so by `across`; a test holds it to that
        )


class ShardedEngine(CompiledEngine):
    """The same loop on every device, each with its share of the environments; `algos` speaks through `across`.

    Parameters, optimizer and statistics are equal on all devices at every moment.
    """

    def __init__(self, algorithm: Algorithm):
        super().__init__(algorithm)
        self._places = ShardingLayout(algorithm)

    def init(self, seed: int) -> State:
        places = self._places
        arguments = places.shared((jax.random.key_data(jax.random.key(seed)), self.hypers))
        if self._init is None:
            begin = lambda key, hypers: strip_weak_types(self.algorithm.init(jax.random.wrap_key_data(key), hypers))
            places.know(jax.eval_shape(begin, *arguments))
            begin_flat = lambda key, hypers: places.flat.flatten(begin(key, hypers))
            placement = Placement(places.same(arguments), places.leaves)
            self._init = exported("init", self.algorithm.config.shape, begin_flat, arguments, placement=placement)
        return places.flat.unflatten(self._init(*arguments))

    def compile(self, state: State) -> None:
        if self._run is not None:
            return
        start_time, places = time.perf_counter(), self._places
        places.know(state)

        def loop(count, hypers, *leaves):
            state, infos, done = self._loop(places.flat.unflatten(leaves), hypers, count)
            return places.flat.flatten(state), infos._asdict(), done

        arguments = (*places.shared((jnp.int32(1), self.hypers)), *places.of(state))
        info = jax.eval_shape(lambda s, h: self.algorithm.step(s, h)[1], state, self.hypers)
        shared = places.on_each(loop, info, sharding.EVERYWHERE)
        # What is recorded goes to every process whole, once per call.
        here = (places.everywhere, places.same(self.hypers), *places.leaves)
        placement = Placement(here, (places.leaves, places.same(info)._asdict(), places.everywhere))
        donated = tuple(range(2, len(arguments)))
        key = (*self.algorithm.config.shape, self.chunk)
        self._run = exported("loop", key, shared, arguments, donated, placement)
        self.compile_seconds += time.perf_counter() - start_time

    def launch(self, state: State, count: int) -> tuple[State, Waiting]:
        places = self._places
        count = places.shared(jnp.int32(min(count, self.chunk)))
        leaves, infos, done = self._run(count, places.shared(self.hypers), *places.of(state))
        wait: Callable[[], Info] = lambda: jax.tree.map(lambda x: np.asarray(x)[: int(done)], Info(**infos))
        return places.flat.unflatten(leaves), wait


class ShardedHostEngine(HostEngine):
    """Host environments, each process stepping those of its own devices, all at once: every device acts in its share
    of them and learns from its share of the rows."""

    def __init__(self, algorithm: Algorithm):
        super().__init__(algorithm)
        self._places = ShardingLayout(algorithm)
        self._here = sharding.here(self._places.mesh)
        self._cut = [sharding.placed(self._places.mesh, sharding.along(axis)) for axis in range(2)]
        each, first = algorithm.config.num_envs // self._places.mesh.size, self._here.devices[0]
        begin = each * list(self._places.mesh.devices).index(first)
        self._mine = slice(begin, begin + each * self._here.size)

    def _begun(self, seed: int) -> Carry:
        """Every process has episodes of its own, the first those that it would have alone."""
        process = jax.process_index()
        carry = self._carry(derived_seed(seed, process) if process else seed)
        return jax.tree.map(lambda x: sharding.joined(x, self._cut[0]), carry)

    def init(self, seed: int) -> State:
        places, carry = self._places, self._begun(seed)
        begin = lambda key, hypers, carry: strip_weak_types(
            self.algorithm.init(jax.random.wrap_key_data(key), hypers, carry)
        )
        arguments = *places.shared((jax.random.key_data(jax.random.key(seed)), self.hypers)), carry
        places.know(jax.eval_shape(begin, *arguments))
        flat = jax.jit(lambda *arguments: places.flat.flatten(begin(*arguments)), out_shardings=places.leaves)
        return places.flat.unflatten(flat(*arguments))

    def compile(self, state: State) -> None:
        start_time = time.perf_counter()
        self._places.know(state)
        self._draw = jax.jit(lambda key: self.algorithm.noise(jax.random.wrap_key_data(key)))
        noise = jax.eval_shape(self._draw, jax.random.key_data(jax.random.key(0)))[1]
        self._act = self._compile_act(state, noise)
        self._learn = self._compile_learn(state)
        self.compile_seconds += time.perf_counter() - start_time

    def _compile_act(self, state: State, noise: jax.ShapeDtypeStruct) -> Callable[..., Any]:
        """One step's actions in this process's environments, by its devices."""
        everywhere, cut = (sharding.placed(self._here, part) for part in (sharding.EVERYWHERE, sharding.along(0)))
        count = self.algorithm.env.num_envs
        first = lambda x, lead=0: jax.ShapeDtypeStruct((count, *x.shape[1 + lead :]), x.dtype)
        arguments = state.params, state.obs_stats, first(state.env.obs), first(noise, 1), self._act_hypers
        act = jax.jit(
            self.algorithm.act, in_shardings=(everywhere, everywhere, cut, cut, everywhere), out_shardings=cut
        )
        abstract = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
        return act.lower(*jax.tree.map(abstract, arguments)).compile()

    def _compile_learn(self, state: State) -> Callable[..., Any]:
        places = self._places

        def learn(hypers, rows, *leaves):
            state, info = strip_weak_types(self.algorithm.learn(places.flat.unflatten(leaves), rows, hypers))
            return places.flat.flatten(state), jax.tree.map(lambda x: x[None], info)._asdict(), jnp.int32(1)

        rows = self._abstract_rows()
        info = jax.eval_shape(lambda *arguments: self.algorithm.learn(*arguments)[1], state, rows, self.hypers)
        inputs = self.hypers, rows, *places.of(state)
        cut = jax.tree.map(lambda _: self._cut[1], rows)
        here = places.same(self.hypers), cut, *places.leaves
        there = places.leaves, places.same(info)._asdict(), places.everywhere
        donated = tuple(range(2, len(inputs)))
        shared = places.on_each(learn, info, sharding.along(1))
        return jax.jit(shared, in_shardings=here, out_shardings=there, donate_argnums=donated).lower(*inputs).compile()

    def launch(self, state: State, count: int) -> tuple[State, Waiting]:
        places = self._places
        state = places.flat.unflatten(places.of(state))
        key, noise = self._draw(sharding.one_copy(jax.random.key_data(state.key)))
        carry, rows = self._collected(state, np.asarray(noise)[:, self._mine])
        leaves = places.of(replace(state, key=key, env=carry))
        leaves, infos, _ = self._learn(places.shared(self.hypers), rows, *leaves)
        info = jax.tree.map(np.asarray, Info(**infos))
        return places.flat.unflatten(leaves), lambda: info

    def _collected(self, state: State, noise: np.ndarray) -> tuple[Carry, Rollout]:
        """Rows of this process's environments, joined with those of the others."""
        act_inputs = state.params, state.obs_stats, self._places.shared(self._act_hypers)
        params, obs_stats, hypers = sharding.held(act_inputs, self._here)
        act = lambda obs, noise: self._act(params, obs_stats, obs, noise, hypers)
        mine, dist = jax.tree.map(sharding.mine, state.env), self.algorithm.dist
        collected = rollout.collect_host(self.algorithm.env, dist, act, noise, mine)
        carry, rows = (
            jax.tree.map(lambda x, at=at: sharding.joined(x, at), part) for part, at in zip(collected, self._cut)
        )
        return carry, rows
