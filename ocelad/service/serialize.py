"""Wire models of projects, entries, items and the state of learning."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from ocelad.engines.rice_settings import Rice
from ocelad.service import items as item_sets
from ocelad.service import wire
from ocelad.service.entries import Entry
from ocelad.service.error_handlers import UNAVAILABLE
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import Group, View
from ocelad.service.learning.random_pairs import RandomCounts
from ocelad.service.learning.tracker_settings import TrackerSettings, compare_version
from ocelad.service.project_options import Cards, ProjectOptions
from ocelad.service.security import Caller
from ocelad.service.served_project import ServedProject
from ocelad.service.service import Service
from ocelad.service.store import ProjectRecord

# Decimal digits of the timeline, more than a plot can show.
_TIMELINE_DIGITS = 6
# Items with more features are returned without them.
_MAX_ITEM_FEATURES = 100


def project_info(
    project: ServedProject, permission: wire.Permission, *, detailed: bool = False, notes: Sequence[str] = ()
) -> wire.ProjectInfo:
    """Return the description of a project for a caller with this permission.

    On request it is detailed: with the numbers of groups, the guidelines and the cards.
    """
    view, items, options = project.view, project.items, project.options
    groups = view.groups if detailed else None
    replay = project.replay
    return wire.ProjectInfo(
        id=project.id,
        title=project.title,
        created_at=project.created_at,
        n_items=len(items),
        feature_names=list(items.feature_names),
        display=items.display,
        columns=[wire.Column(**column._asdict()) for column in project.columns],
        question=options.question,
        guidelines=options.guidelines if detailed else None,
        cards=cards(project.cards) if detailed else None,
        card_columns=card_columns(items) if detailed else None,
        method=view.method,
        curved=view.curved,
        transitive=view.groups is not None,
        seq=project.seq,
        learned_seq=view.seq,
        n_answers=view.n_answers,
        n_implied=None if groups is None else groups.n_implied,
        n_groups=None if groups is None else len(groups.all),
        n_contradictions=None if groups is None else len(groups.contradictions),
        permission=permission,
        notice=None if project.notice is None else wire.Notice(at=project.notice.at, text=project.notice.text),
        archived_at=project.archived_at,
        repeat_share=options.repeat_share,
        repeat_people=options.repeat_people,
        weights=options.weights.mode,
        replay=replay.kind,
        replay_note=replay.note,
        notes=list(notes),
    )


def project_summary(service: Service, record: ProjectRecord, permission: wire.Permission) -> wire.ProjectInfo:
    """Return the description of a project without loading it: some numbers are None if it is not in memory."""
    project = service.peek(record.id)
    if project is not None:
        return project_info(project, permission)
    settings, replay = TrackerSettings.read(record.settings), compare_version(record.settings)
    notice, options = service.notices.get(record.id), ProjectOptions.read(record.options)
    return wire.ProjectInfo(
        id=record.id,
        title=record.title,
        created_at=record.created_at,
        n_items=record.n_items,
        feature_names=list(record.metadata["feature_names"]),
        display=record.metadata["shown"],
        columns=[],
        question=options.question,
        guidelines=None,
        cards=None,
        card_columns=None,
        method="rice" if isinstance(settings.method, Rice) else "adaptive",
        curved=settings.curved,
        transitive=settings.transitive,
        seq=record.seq,
        learned_seq=None,
        n_answers=None,
        n_implied=None,
        n_groups=None,
        n_contradictions=None,
        permission=permission,
        notice=None if notice is None else wire.Notice(at=notice.at, text=notice.text),
        archived_at=record.archived_at,
        repeat_share=options.repeat_share,
        repeat_people=options.repeat_people,
        weights=options.weights.mode,
        replay=replay.kind,
        replay_note=replay.note,
    )


def project_page(
    service: Service, caller: Caller, after: int, limit: int, *, archived: bool = False
) -> wire.ProjectList:
    """Return a page of the projects that a caller may read, without loading any."""
    held = (
        (record, permission)
        for record in service.records()
        if record.number > after
        and (archived or record.archived_at is None)
        and (permission := caller.permission_on(record.id)) is not None
    )
    page = list(islice(held, limit + 1))
    infos = [project_summary(service, record, permission) for record, permission in page[:limit]]
    return wire.ProjectList(projects=infos, next=page[limit - 1][0].number if len(page) > limit else None)


def cards(cards: Cards) -> wire.Cards:
    """Return the columns of an item's card."""
    return wire.Cards(
        title=cards.title, text=cards.text, link=cards.link, picture=cards.picture, fields=list(cards.fields)
    )


def card_columns(items: ItemSet) -> list[wire.CardColumn]:
    """Return the columns that cards can show."""
    return [wire.CardColumn(**column._asdict()) for column in item_sets.card_columns(items)]


def log_entry(project: ServedProject, entry: Entry, last: int | None = None) -> wire.LogEntry:
    """Return an entry of the log with the ids of its items; if ``last`` is given, as of that entry."""
    ids = project.items.ids
    # The content is gone, or there was none; an undo of another person's answer keeps its items.
    is_empty = entry.kind in ("erased", "erase") or (entry.erased is not None and entry.left == entry.right)
    return wire.LogEntry(
        seq=entry.seq,
        at=entry.at,
        kind=entry.kind,
        left=None if is_empty else ids[entry.left],
        right=None if is_empty else ids[entry.right],
        source=entry.source,
        person=entry.person,
        undoes=entry.undoes,
        undone=project.is_undone(entry, last),
        name=entry.name,
        bundle=entry.bundle,
    )


def item(project: ServedProject, position: int, *, with_features: bool = False) -> wire.Item:
    """Return an item of a project, on request with its features unless it has too many."""
    items = project.items
    with_features = with_features and len(items.feature_names) <= _MAX_ITEM_FEATURES
    features = zip(items.feature_names, items.features[position].tolist(), strict=True) if with_features else ()
    card = item_sets.make_card(items, project.cards, position)
    picture = f"/v1/projects/{project.id}/pictures/{position}" if card.has_picture else None
    return wire.Item(
        id=items.ids[position],
        position=position,
        title=card.title,
        text=card.text,
        link=card.link,
        picture=picture,
        picture_full=None if picture is None else f"{picture}?size=full",
        features=dict(features),
        fields=card.fields,
    )


def group(project: ServedProject, group: Group, n_items: int = 0) -> wire.Group:
    """Return a group of a project with its first items."""
    return wire.Group(
        id=project.items.ids[group.items[0]],
        name=group.name,
        size=len(group.items),
        items=[item(project, position) for position in group.items[:n_items]],
    )


def column_values(items: ItemSet, name: str) -> wire.ColumnValues:
    """Return the values of a column."""
    return wire.ColumnValues(**item_sets.column_values(items, name)._asdict())


def differences(items: ItemSet, left: int, right: int) -> list[wire.Difference]:
    """Return the features in which two items differ most."""
    return [wire.Difference(**each._asdict()) for each in item_sets.largest_differences(items, left, right)]


def metric_info(view: View, *, matrix: bool, spectrum: bool) -> wire.MetricInfo:
    """Return the description of a metric, on request with its matrix and its largest eigenvalues."""
    metric = view.metric
    return wire.MetricInfo(
        seq=view.seq,
        n_answers=view.n_answers,
        n_features=metric.n_features,
        threshold=metric.distance_threshold,
        features=[wire.FeatureShare(**share._asdict()) for share in view.summary.features],
        method=view.method,
        curved=view.curved,
        experts=[wire.ExpertShare(**share._asdict()) for share in view.summary.experts],
        matrix=view.linear_part_of_features.matrix.tolist() if matrix else None,
        spectrum=view.spectrum.tolist() if spectrum else None,
    )


def timeline(view: View) -> wire.Timeline:
    """Return the course of learning up to a view."""
    columns = view.timeline.columns()
    return wire.Timeline(
        seq=view.seq,
        n_answers=columns.n_answers.astype(int).tolist(),
        loss=columns.loss.round(_TIMELINE_DIGITS).tolist(),
        accuracy=columns.accuracy.round(_TIMELINE_DIGITS).tolist(),
        drift=columns.drift.round(_TIMELINE_DIGITS).tolist(),
        method=view.method,
        experts=list(view.expert_names),
        shares=columns.shares.round(_TIMELINE_DIGITS).tolist(),
        changes=[
            wire.DetectedChange(first=change.round, detected=change.detected, evidence=change.evidence)
            for change in view.timeline.changes
        ],
        random_pairs=_random_pairs(view.timeline.random_course),
    )


def _random_pairs(course: Sequence[RandomCounts]) -> wire.RandomPairAccuracy:
    last = course[-1] if course else RandomCounts()
    columns = zip(RandomCounts._fields, map(list, zip(*course, strict=True)) if course else 4 * [[]], strict=True)
    return wire.RandomPairAccuracy(**last._asdict(), course=wire.RandomPairCourse(**dict(columns)))


def item_map(view: View, n_clusters: int | None) -> wire.ItemMap:
    """Return all items in the plane, on request with their clusters."""
    return wire.ItemMap(
        seq=view.seq,
        n_items=len(view.items),
        xy=_base64(view.xy.astype("<f4")),
        clusters=None if n_clusters is None else _base64(view.clusters(n_clusters)),
    )


def readiness(service: Service) -> wire.Readiness:
    """Return whether a service can store and serve and, if not, why; and the state of each project in memory.

    The text of an error of the database is not repeated: it may name files and hosts.
    """
    projects = {project.id: _loaded_readiness(project) for project in service}
    backlog = {id: state.backlog or 0 for id, state in projects.items()}
    status: wire.ServiceStatus = "ready"
    reason = None
    if service.stopping:
        status, reason = "stopping", "the service is stopping"
    elif service.store.is_lost:
        status, reason = "failing", UNAVAILABLE["database_lost"]
    elif service.store.failure is not None:
        status, reason = "failing", "the database cannot be written"
    return wire.Readiness(status=status, reason=reason, backlog=backlog, projects=projects)


def project_readiness(service: Service, id: str) -> wire.ProjectReadiness:
    """Return whether a project is ready for use; one that is not in memory is, because it is loaded when asked for."""
    refusal, project = service.refusal(id), service.peek(id)
    if refusal is not None:
        return wire.ProjectReadiness(status="rebuilding", reason=refusal.message, backlog=None)
    if project is None:
        return wire.ProjectReadiness(status="ready", reason=None, backlog=None)
    return _loaded_readiness(project)


def _loaded_readiness(project: ServedProject) -> wire.ProjectReadiness:
    status: wire.ProjectStatus = "ready"
    reason = None
    if project.learner.failure is not None:
        status, reason = "failing", project.learner.failure
    elif project.view.seq < project.initial_seq:
        status, reason = "starting", "it is still learning from earlier answers"
    return wire.ProjectReadiness(status=status, reason=reason, backlog=project.backlog)


def _base64(array: np.ndarray[Any, Any]) -> str:
    return b64encode(array.tobytes()).decode()
