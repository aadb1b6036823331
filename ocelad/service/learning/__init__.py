"""What is learned from the log of a project, in the background, and what readers may ask of it."""

from ocelad.service.learning.learner import Learner as Learner
from ocelad.service.learning.precompile import precompile_learning as precompile_learning
from ocelad.service.learning.timeline import Timeline as Timeline
from ocelad.service.learning.tracker_settings import checked_settings as checked_settings
from ocelad.service.learning.tracker_settings import default_settings as default_settings
from ocelad.service.learning.view import View as View
