"""Many trackers, one per key: a tenant, a user, a site or a topic."""

from ocelad.fleet.fleet import Fleet as Fleet
from ocelad.fleet.fleet_store import FleetDamaged as FleetDamaged
from ocelad.fleet.fleet_store import FleetInUse as FleetInUse
