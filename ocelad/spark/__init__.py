"""One distance for each key of a stream, on Apache Spark's own state store; see ``track_stream``.

Needs ``pip install 'ocelad[spark]'`` and Java 17.
"""

from ocelad.spark.distances import distance, embed, probability
from ocelad.spark.session import check_session, spark_session
from ocelad.spark.track import latest, refused_rows, track_stream, track_table

__all__ = [
    "check_session",
    "distance",
    "embed",
    "latest",
    "probability",
    "refused_rows",
    "spark_session",
    "track_stream",
    "track_table",
]
