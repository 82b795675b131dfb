"""Stops at a debugger's prompt in the middle of a hand-written loop."""

import tensorflow as tf

weight = tf.Variable(1.0)
data = tf.data.Dataset.range(20).map(lambda n: tf.cast(n, tf.float32)).batch(4)
for number, batch in enumerate(data):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((weight * batch - 1.0) ** 2)
    weight.assign_sub(0.001 * tape.gradient(loss, weight))
    if number == 3:
        breakpoint()
print("trained", flush=True)
