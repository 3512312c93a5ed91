"""What a run is: `Config`, its fields, and what each algorithm is."""

from trimtab.config.run_config import Config, ConfigError, from_dict, nearest_divisors

__all__ = ["Config", "ConfigError", "from_dict", "nearest_divisors"]
