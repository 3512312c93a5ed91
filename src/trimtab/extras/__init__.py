"""What hangs on the core, which does not know it: exported policies, played episodes, the live page."""
