"""Prints the RAM budget that tf.data got, of a dataset of its own and of one whose user chose."""

import tensorflow as tf


def show(dataset):
    print("budget", iter(dataset)._dataset.options().autotune.ram_budget, flush=True)


show(tf.data.Dataset.range(3))
chosen = tf.data.Options()
chosen.autotune.ram_budget = 12345678
show(tf.data.Dataset.range(3).with_options(chosen))
