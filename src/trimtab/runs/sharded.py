"""One run on several devices: the loop of compiled iterations, sharded over them."""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from trimtab.algos.algorithm import Algorithm
from trimtab.algos.state import Info, State
from trimtab.runs import sharding
from trimtab.runs.engine import CompiledEngine, Waiting, strong
from trimtab.runs.programs import Flat, Placement, exported, shape_of


class ShardedEngine(CompiledEngine):
    """The same loop on every device, each with its share of the environments; `algos` speaks through `across`.

    Parameters, optimizer and statistics are equal on all devices at every moment.
    """

    def __init__(self, algorithm: Algorithm):
        super().__init__(algorithm)
        self._mesh = sharding.mesh_of(algorithm.config)
        self._everywhere = sharding.placed(self._mesh, sharding.EVERYWHERE)

    def _shared(self, tree):
        """Small things that every device has."""
        return jax.tree.map(lambda x: sharding.put(x, self._everywhere), tree)

    def _shardings(self, state: State) -> list[jax.sharding.NamedSharding]:
        """Of each leaf, as `Flat` orders them."""
        return jax.tree.leaves(sharding.placed(self._mesh, sharding.parts_of(state)))

    def init(self, seed: int) -> State:
        given = self._shared((jax.random.key_data(jax.random.key(seed)), self.hypers))
        if self._init is None:
            begin = lambda key, hypers: strong(self.algorithm.init(jax.random.wrap_key_data(key), hypers))
            state = jax.eval_shape(begin, *given)
            flat = self._flat = Flat(state)
            begin_flat = lambda key, hypers: flat.flatten(begin(key, hypers))
            placement = Placement(jax.tree.map(lambda _: self._everywhere, given), self._shardings(state))
            self._init = exported("init", shape_of(self.algorithm.config), begin_flat, given, placement=placement)
        return self._flat.unflatten(self._init(*given))

    def compile(self, state: State) -> None:
        if self._run is not None:
            return
        begun = time.perf_counter()
        flat = self._flat = Flat(state)
        cuts, everywhere = jax.tree.leaves(sharding.parts_of(state)), sharding.EVERYWHERE
        self._places = self._shardings(state)

        def loop(count, hypers, *leaves):
            state, infos, done = self._loop(flat.unflatten(leaves), hypers, count)
            return flat.flatten(state), infos._asdict(), done

        given = (*self._shared((jnp.int32(1), self.hypers)), *self._placed(state))
        info = jax.eval_shape(lambda s, h: self.algorithm.step(s, h)[1], state, self.hypers)
        shared = jax.shard_map(
            loop,
            mesh=self._mesh,
            in_specs=(everywhere, everywhere, *cuts),
            out_specs=(cuts, sharding.parts_of_infos(info)._asdict(), everywhere),
            check_vma=False,  # what is equal on all devices is made so by `across`; a test holds it to that
        )
        # What is recorded goes to every process whole, once per call.
        records = jax.tree.map(lambda _: self._everywhere, info)._asdict()
        here = (self._everywhere, jax.tree.map(lambda _: self._everywhere, self.hypers), *self._places)
        placement = Placement(here, (self._places, records, self._everywhere))
        donated = tuple(range(2, len(given)))
        key = (*shape_of(self.algorithm.config), self.chunk)
        self._run = exported("loop", key, shared, given, donated, placement)
        self.compile_seconds += time.perf_counter() - begun

    def _placed(self, state: State) -> list[jax.Array]:
        """The leaves of a state where they belong: a resumed or begun one comes from the host."""
        return list(map(sharding.put, self._flat.flatten(state), self._places))

    def launch(self, state: State, count: int) -> tuple[State, Waiting]:
        count = self._shared(jnp.int32(min(count, self.chunk)))
        leaves, infos, done = self._run(count, self._shared(self.hypers), *self._placed(state))
        wait: Callable[[], Info] = lambda: jax.tree.map(lambda x: np.asarray(x)[: int(done)], Info(**infos))
        return self._flat.unflatten(leaves), wait
