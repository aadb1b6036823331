"""Evaluation of metrics: test streams, scores, regret, calibration, and prequential evaluation.

- ``ocelad.evaluation.streams``: drifting streams of pairs, and product reviews
- ``ocelad.evaluation.scores``: k-NN error, NMI of k-means clusters, area under the ROC curve
- ``ocelad.evaluation.prequential``: scores along a stream, each before the next pair is learned
- ``ocelad.evaluation.regret``: regret on every interval, and the bound of Theorem 1
- ``ocelad.evaluation.reliability``: calibration of probabilities
- ``ocelad.evaluation.plots``: figures with matplotlib
"""
