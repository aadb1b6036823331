"""Items: read from files, folders and uploads, scaled, told of, added to and written."""

from ocelad.service.items.built_in import BUILT_IN, built_in
from ocelad.service.items.digest import digest, fingerprint
from ocelad.service.items.export import write_items
from ocelad.service.items.grow import append, joined
from ocelad.service.items.read_upload import read_items
from ocelad.service.items.sandbox import read_upload
from ocelad.service.items.scaling import scaled
from ocelad.service.items.serialize import column, columns, differences, item
from ocelad.service.items.upload_limits import ItemsError, Limits

__all__ = [
    "BUILT_IN",
    "ItemsError",
    "Limits",
    "append",
    "built_in",
    "column",
    "columns",
    "differences",
    "digest",
    "fingerprint",
    "item",
    "joined",
    "read_items",
    "read_upload",
    "scaled",
    "write_items",
]
