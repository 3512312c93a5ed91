"""The experiments of "Batch size-invariance for policy optimization" (Hilton, Cobbe and Schulman, arXiv 2110.00641)."""

from trimtab.studies.paper.ablations import Betas, Linear
from trimtab.studies.paper.adam import Adam
from trimtab.studies.paper.ewma import Ewma
from trimtab.studies.paper.invariance import Invariance
from trimtab.studies.paper.proximal_age import ProximalAge
from trimtab.studies.paper.published import Published
from trimtab.studies.paper.staleness import Staleness
from trimtab.studies.paper.table5 import Table5

PAPER = (Staleness, Invariance, Table5, Ewma, Linear, Betas, ProximalAge, Adam, Published)
