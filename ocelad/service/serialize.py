"""Wire models of projects, entries, items and the state of learning."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np

from ocelad.service import items as item_sets
from ocelad.service import wire
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import Group, View
from ocelad.service.served_project import ServedProject
from ocelad.service.service import Service

# Decimal digits of the timeline, more than a plot can show.
_TIMELINE_DIGITS = 6
# Items with more features are returned without them.
_MAX_ITEM_FEATURES = 100


def project_info(project: ServedProject, permission: wire.Permission, *, with_groups: bool = False) -> wire.ProjectInfo:
    """Return the description of a project for a caller with this permission, on request with numbers of groups."""
    view, items = project.view, project.items
    groups = view.groups if with_groups else None
    return wire.ProjectInfo(
        id=project.id,
        title=project.title,
        created_at=project.created_at,
        n_items=len(items),
        feature_names=list(items.feature_names),
        display=items.display,
        columns=[wire.Column(**column._asdict()) for column in project.columns],
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
    )


def log_entry(project: ServedProject, entry: Entry, last: int | None = None) -> wire.LogEntry:
    """Return an entry of the log with the ids of its items; if ``last`` is given, as of that entry."""
    ids = project.items.ids
    return wire.LogEntry(
        seq=entry.seq,
        at=entry.at,
        kind=entry.kind,
        left=ids[entry.left],
        right=ids[entry.right],
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
    return wire.Item(
        id=items.ids[position],
        position=position,
        text=None if items.text is None else items.text[position],
        picture=None if items.pictures is None else f"/v1/projects/{project.id}/pictures/{position}",
        features=dict(features),
        fields={name: values[position] for name, values in items.fields.items()},
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
        random_pairs=wire.RandomPairAccuracy(n=view.timeline.n_random_pairs, n_correct=view.timeline.n_random_correct),
    )


def item_map(view: View, n_clusters: int | None) -> wire.ItemMap:
    """Return all items in the plane, on request with their clusters."""
    return wire.ItemMap(
        seq=view.seq,
        n_items=len(view.items),
        xy=_base64(view.xy.astype("<f4")),
        clusters=None if n_clusters is None else _base64(view.clusters(n_clusters)),
    )


def readiness(service: Service) -> wire.Readiness:
    """Return whether a service is ready for use and, if not, why."""
    backlog = {project.id: project.backlog for project in service}
    failed = next((f"{project.id}: {project.learner.failure}" for project in service if project.learner.failure), None)
    if service.stopping:
        return wire.Readiness(status="stopping", reason="the service is stopping", backlog=backlog)
    if service.store.failure is not None:  # its text is not repeated: it may name files and hosts
        return wire.Readiness(status="failing", reason="the database cannot be written", backlog=backlog)
    if failed is not None:
        return wire.Readiness(status="failing", reason=failed, backlog=backlog)
    late = [project.id for project in service if project.view.seq < project.initial_seq]
    if late:
        return wire.Readiness(status="starting", reason=f"still learning from earlier answers: {late}", backlog=backlog)
    return wire.Readiness(status="ready", reason=None, backlog=backlog)


def _base64(array: np.ndarray[Any, Any]) -> str:
    return b64encode(array.tobytes()).decode()
