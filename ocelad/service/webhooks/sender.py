"""WebhookSender: sends webhooks in threads of its own, in order, with retries and bounded queues."""

from __future__ import annotations

import http.client
import json
from collections import deque
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network
from threading import Lock
from time import monotonic, time
from uuid import uuid4

from ocelad.service.learning import LearnerPool, View
from ocelad.service.log_setup import get_logger
from ocelad.service.store import Webhook
from ocelad.service.webhook_signatures import HEADER, sign
from ocelad.service.webhooks.addresses import WebhookRefused, check_url, resolve
from ocelad.service.webhooks.requests import post
from ocelad.service.webhooks.triggers import Triggers

log = get_logger("ocelad.webhooks")
#: Seconds before each further attempt; after the last one, the request is given up.
RETRIES = (1.0, 5.0, 30.0, 120.0, 600.0)
# Requests that wait for one webhook; older ones are given up.
_MAX_QUEUED = 50
_N_THREADS = 2


class _Hook:
    """A webhook, the requests that wait for it, and the view that was last compared."""

    def __init__(self, webhook: Webhook, allowed: Sequence[IPv4Network | IPv6Network]) -> None:
        self.webhook, self._allowed = webhook, allowed
        self.failure: str | None = None
        self._lock = Lock()
        self._view: View | None = None
        self._triggers: Triggers | None = None
        self._queue: deque[bytes] = deque(maxlen=_MAX_QUEUED)
        self._checked_at, self._send_at, self._n_failures = -float("inf"), 0.0, 0

    @property
    def interval(self) -> float:
        """The least number of seconds between two calls for events other than a change."""
        return self.webhook.interval

    def put(self, view: View) -> float:
        """Take a view; return the time at which it is to be compared."""
        with self._lock:
            if self._triggers is None:
                self._triggers = Triggers(self.webhook.events, view)
                return float("inf")
            is_change = "change" in self.webhook.events and view.changes
            self._view = view
            return 0.0 if is_change else self._checked_at + self.interval

    def step(self) -> float | None:
        """Compare the last view, and send the first waiting request."""
        now = monotonic()
        with self._lock:
            view, triggers = self._view, self._triggers
        if view is not None and triggers is not None and now >= self._checked_at + self.interval:
            with self._lock:
                self._view = None  # a view keeps all items of a project in memory
            found = triggers.check(view)
            if found:
                self._checked_at = now
            for event in found:
                self._queue.append(self._body(event))
        if self._queue and now >= self._send_at:
            self._send(self._queue[0])
        due = [self._send_at] if self._queue else []
        with self._lock:
            due += [self._checked_at + self.interval] if self._view is not None else []
        return max(0.0, min(due) - monotonic()) if due else None

    def _body(self, event: dict[str, object]) -> bytes:
        about = {"id": uuid4().hex, "project": self.webhook.project, "at": int(time() * 1000)}
        return json.dumps({**event, **about}).encode()

    def _send(self, body: bytes) -> None:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "ocelad",
            HEADER: sign(self.webhook.secret, body, int(time())),
        }
        try:
            target = check_url(self.webhook.url)
            status = post(target, resolve(target, self._allowed), body, headers)
            failure = None if 200 <= status < 300 else f"the receiver answered {status}; accepted: 200 to 299"
        except WebhookRefused as error:
            failure = str(error)
        except (OSError, http.client.HTTPException) as error:
            failure = f"the receiver cannot be reached ({type(error).__name__})"
        self.failure = failure
        if failure is None or self._n_failures == len(RETRIES):
            if failure is not None:
                log.warning("a webhook was given up", project=self.webhook.project, reason=failure)
            if self._queue and self._queue[0] is body:
                self._queue.popleft()
            self._send_at, self._n_failures = 0.0, 0
        else:
            self._send_at = monotonic() + RETRIES[self._n_failures]
            self._n_failures += 1


class WebhookSender:
    """Sends the webhooks of all projects.

    The requests of one webhook are sent one after the other; the one that failed is repeated first. Requests that
    wait are lost when the service stops.

    Parameters
    ----------
    load : callable () -> list of Webhook
    allowed : sequence of networks
        Networks that webhooks may be sent to although they are not public.
    """

    def __init__(self, load: Callable[[], list[Webhook]], allowed: Sequence[IPv4Network | IPv6Network]) -> None:
        self._load, self._allowed = load, allowed
        self._lock = Lock()
        self._hooks: dict[str, dict[int, _Hook]] = {}  # by project and number
        self._pool: LearnerPool | None = None
        self.reload()

    def reload(self) -> None:
        """Read all webhooks; those that were known keep their queue."""
        found = self._load()
        with self._lock:
            known = {hook.webhook: hook for hooks in self._hooks.values() for hook in hooks.values()}
            self._hooks = {}
            for webhook in found:
                hook = known.pop(webhook, None) or self._start(webhook)
                self._hooks.setdefault(webhook.project, {})[webhook.number] = hook
            for gone in known.values():
                if self._pool is not None:
                    self._pool.remove(gone, wait=False)

    def _start(self, webhook: Webhook) -> _Hook:
        if self._pool is None:  # without webhooks there are no threads
            self._pool = LearnerPool(_N_THREADS)
        hook = _Hook(webhook, self._allowed)
        self._pool.add(hook)
        return hook

    def put(self, project: str, view: View) -> None:
        """Compare a view of a project with the last one, soon; the first one is only remembered."""
        for hook in list(self._hooks.get(project, {}).values()):
            due = hook.put(view)
            if self._pool is not None:
                self._pool.wake(hook, due)

    def failure(self, webhook: Webhook) -> str | None:
        """Return why the last request of a webhook failed; None: it did not."""
        hook = self._hooks.get(webhook.project, {}).get(webhook.number)
        return None if hook is None else hook.failure

    def close(self) -> None:
        """End the threads; requests that wait are lost."""
        if self._pool is not None:
            self._pool.close()
