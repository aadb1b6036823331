"""The core: the schedule, the learners and OCELAD over them. No input or output, no clock, no randomness."""
