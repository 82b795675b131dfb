"""The input pipeline inside the budget: what tf.data may use for its own buffers.

By itself tf.data takes up to half of the *host's* free memory, whatever limit the process lives under.
"""

from ..peak import anonymous
from .parts import tf

LEAST = 64 << 20
SHARE = 0.5  # of what the limit leaves: the same rule as tf.data's own, with the right number


def bounded(dataset, heart):
    """The dataset with a RAM budget from the run's limit, unless the user gave it one."""
    limit = heart.counsel.limit
    if not limit or dataset is None:
        return dataset
    try:
        if dataset.options().autotune.ram_budget is not None:
            return dataset
        options = tf().data.Options()
        options.autotune.ram_budget = budget(limit, anonymous())
        return dataset.with_options(options)
    except Exception as error:  # an unusual dataset: it runs as it would alone
        heart.failed("pipeline", error)
        return dataset


def budget(limit, in_use):
    return max(LEAST, int(SHARE * (limit - in_use)))
