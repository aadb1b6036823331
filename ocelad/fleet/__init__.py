"""Many trackers, one per key: a tenant, a user, a site or a topic."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocelad.fleet.fleet import Fleet as Fleet
    from ocelad.fleet.fleet_store import FleetDamaged as FleetDamaged
    from ocelad.fleet.fleet_store import FleetInUse as FleetInUse

# Imported on first use: a worker that needs nothing but packed trackers does not load scikit-learn.
_MODULE_OF = {
    "Fleet": "ocelad.fleet.fleet",
    "FleetDamaged": "ocelad.fleet.fleet_store",
    "FleetInUse": "ocelad.fleet.fleet_store",
}

__all__ = sorted(_MODULE_OF)


if not TYPE_CHECKING:  # type checkers must see only the names above

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'ocelad.fleet' has no attribute {name!r}")
        return getattr(import_module(_MODULE_OF[name]), name)
