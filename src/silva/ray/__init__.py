"""Ray Serve behind the gateway: what the extra `ray` brings, by the entry point `silva.backends`. No other room knows
it."""

from silva.ray.serve import RayBackends, RayProvider

__all__ = ["RayBackends", "RayProvider"]
