"""Catches TensorFlow's own out-of-memory error, prints it and exits with 1, as many scripts do."""

import sys

import tensorflow as tf

try:
    tf.zeros([1 << 40, 8])
except tf.errors.ResourceExhaustedError as error:
    print(f"Training failed: {error}")
    sys.exit(1)
