"""Learning from a project's log in a background thread, and immutable views of the result."""

from ocelad.service.learning.groups import Group as Group
from ocelad.service.learning.groups import Groups as Groups
from ocelad.service.learning.learner_pool import LearnerPool as LearnerPool
from ocelad.service.learning.learner_thread import Learner as Learner
from ocelad.service.learning.precompile import precompile_learning as precompile_learning
from ocelad.service.learning.precompile import prepare_kernels as prepare_kernels
from ocelad.service.learning.timeline import Timeline as Timeline
from ocelad.service.learning.tracker_settings import Replay as Replay
from ocelad.service.learning.tracker_settings import check_settings as check_settings
from ocelad.service.learning.tracker_settings import compare_version as compare_version
from ocelad.service.learning.tracker_settings import default_settings as default_settings
from ocelad.service.learning.tracker_settings import rice_settings as rice_settings
from ocelad.service.learning.tracker_settings import with_known_items as with_known_items
from ocelad.service.learning.tracker_settings import with_version as with_version
from ocelad.service.learning.view import View as View
