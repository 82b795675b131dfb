"""A mistake in the user's own code."""


def prepare(sample):
    return sample["label"]


prepare({"image": 1})
