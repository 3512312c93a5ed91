"""What jobs that look at gradients share: a prober of a run's checkpoint, compiled once for all runs of one shape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.anatomy.options import ProbeOptions

if TYPE_CHECKING:
    import numpy as np

    from trimtab.anatomy.probe import Prober
    from trimtab.anatomy.sampling import Rows
    from trimtab.runs.engines import Engines


class Lens:
    """A prober, and the gradients of one replicate themselves: their inner products, and the vectors."""

    def __init__(self, prober: Prober):
        import jax

        from trimtab.algos.gradients import chunked_vectors

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

        from trimtab.anatomy.measure import flat

        return np.asarray(program(self.prober.measurer.params, flat(rows.samples)), np.float64)


def lens_at(path: Path, step: int, options: ProbeOptions, engines: Engines) -> Lens:
    """A lens at a checkpoint. Runs that differ in their seed only share its compiled programs."""
    from trimtab.anatomy.probe import Prober
    from trimtab.runs.opening import opened

    config, engine, state, _ = opened(path, step, engines)
    engine.close()
    programs: dict[Any, Any] = engine.algorithm.programs
    key = ("lens", options, tuple(config.traced().items()))
    if not engine.reusable or key not in programs:
        programs[key] = Lens(Prober(config, engine.algorithm, state, options))
        return programs[key]
    programs[key].prober.at(state)
    return programs[key]
