"""A typed Python client of the service, which retries when a connection is lost or the service is busy.

Examples
--------
.. code-block:: python

    from ocelad.client import Client

    with Client("http://127.0.0.1:8765") as client:
        digits = client.project("digits")
        pair = digits.next_pair()
        digits.compare(pair.left.id, pair.right.id, same=True, ticket=pair.ticket)
        metric = digits.metric()
"""

from ocelad.client.client import Client
from ocelad.client.errors import ServiceError
from ocelad.client.events import Event
from ocelad.client.project import Project
from ocelad.client.webhooks import verify_webhook

__all__ = ["Client", "Event", "Project", "ServiceError", "verify_webhook"]
