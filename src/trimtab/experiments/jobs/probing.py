"""What jobs that look at gradients share: a prober of a run's checkpoint, compiled once for all runs of one shape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.gradient.probe_options import ProbeOptions

if TYPE_CHECKING:
    import numpy as np

    from trimtab.gradient.probing import Prober
    from trimtab.gradient.row_sampling import Rows
    from trimtab.training.engine_cache import Engines


class Lens:
    """A prober, and the gradients of one replicate themselves: their inner products, and the vectors."""

    def __init__(self, prober: Prober):
        import jax

        from trimtab.training.sample_gradients import chunked_vectors

        self.prober = prober
        self._gram = jax.jit(prober.per_sample.gram)
        self._vectors = jax.jit(lambda params, samples: chunked_vectors(prober.per_sample, params, samples))

    def gram(self, rows: Rows) -> np.ndarray:
        """Inner products of all samples of a replicate, sample (n, t) at n T + t."""
        return self._applied(self._gram, rows)

    def vectors(self, rows: Rows) -> np.ndarray:
        """The per-sample gradients of a replicate, [N T, P]."""
        return self._applied(self._vectors, rows)

    def _applied(self, program, rows: Rows) -> np.ndarray:
        import numpy as np

        from trimtab.gradient.moments import flat

        return np.asarray(program(self.prober.measurer.params, flat(rows.samples)), np.float64)


def lens_at(path: Path, step: int, options: ProbeOptions, engines: Engines) -> Lens:
    """A lens at a checkpoint. Runs that differ in their seed only share its compiled programs."""
    from trimtab.gradient.probing import Prober
    from trimtab.training.opening import opened

    config, engine, state, _ = opened(path, step, engines)
    engine.close()
    programs: dict[Any, Any] = engine.algorithm.programs
    key = ("lens", options, tuple(config.traced().items()))
    if not engine.reusable or key not in programs:
        programs[key] = Lens(Prober(config, engine.algorithm, state, options))
        return programs[key]
    programs[key].prober.at(state)
    return programs[key]
