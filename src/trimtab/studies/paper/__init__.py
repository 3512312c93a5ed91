"""Studies of Hilton, Cobbe and Schulman 2021, "Batch size-invariance for policy optimization" (arXiv 2110.00641)."""
