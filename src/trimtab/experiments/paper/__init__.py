"""The experiments of "Batch size-invariance for policy optimization" (Hilton, Cobbe and Schulman, arXiv 2110.00641)."""

from trimtab.experiments.paper.ablations import Betas, Linear
from trimtab.experiments.paper.adam_step_size import Adam
from trimtab.experiments.paper.ewma_comparison import Ewma
from trimtab.experiments.paper.invariance import Invariance
from trimtab.experiments.paper.proximal_age import ProximalAge
from trimtab.experiments.paper.published import Published
from trimtab.experiments.paper.staleness import Staleness
from trimtab.experiments.paper.table5 import Table5

PAPER = (Staleness, Invariance, Table5, Ewma, Linear, Betas, ProximalAge, Adam, Published)
