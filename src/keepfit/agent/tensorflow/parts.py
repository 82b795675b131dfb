"""Parts of a batch, and sums over them: what splitting a step needs of TensorFlow, for any model or loop.

A batch of `rows` is cut into `parts` of nearly equal size; the loop over them runs inside the compiled
step (`tf.while_loop`), or as a plain loop where the step is eager.
"""

from importlib import import_module


def tf():
    """TensorFlow, which is there by the time anything here is called."""
    return import_module("tensorflow")


def np():
    """NumPy, which TensorFlow has brought."""
    return import_module("numpy")


# --- cutting ----------------------------------------------------------------------------------------


def leaves(data):
    return [leaf for leaf in tf().nest.flatten(data) if leaf is not None]


def why_not_cut(data):
    """None where a batch can be cut by rows, else the reason. `data` holds concrete tensors or arrays."""
    found = leaves(data)
    if not found:
        return "the batch is empty"
    sizes = set()
    for leaf in found:
        if isinstance(leaf, tf().SparseTensor):
            return "a sparse tensor cannot be cut by rows"
        shape = getattr(leaf, "shape", None)
        if shape is None or len(shape) == 0:
            return "the batch holds a value without rows"
        sizes.add(int(leaf.nrows()) if isinstance(leaf, tf().RaggedTensor) else int(leaf.shape[0]))
    if len(sizes) > 1:
        return f"the parts of a batch differ in their rows: {', '.join(map(str, sorted(sizes)))}"
    return None


def rows_of(data):
    """The number of rows, as a tensor."""
    first = leaves(data)[0]
    if isinstance(first, tf().RaggedTensor):
        return tf().cast(first.nrows(), tf().int32)
    return tf().shape(first)[0]


def cut(data, start, size):
    """Rows [start, start + size) of everything in `data`."""

    def one(leaf):
        return None if leaf is None else leaf[start : start + size]

    return tf().nest.map_structure(one, data)


def rows_at(data, places):
    """The rows at these places, of everything in `data`."""
    return tf().nest.map_structure(lambda leaf: None if leaf is None else tf().gather(leaf, places), data)


def of_any_rows(data):
    """The specs of a batch, or of its specs, with its number of rows left open."""

    plain = tf().TensorSpec

    def one(leaf):
        if leaf is None or (isinstance(leaf, tf().TypeSpec) and not (isinstance(leaf, plain) and leaf.shape.rank)):
            return leaf  # of no rows, or ragged, or sparse: as the pipeline tells it
        return tf().TensorSpec([None, *leaf.shape[1:]], leaf.dtype)

    return tf().nest.map_structure(one, data)


def division(rows, micro):
    """(parts, bounds): the fewest parts of at most `micro` rows, as equal as can be.

    `bounds(i)` gives (start, size). Equal parts spare a last one of a single row, which would be slow and
    would have no statistics to speak of.
    """
    parts = tf().maximum((rows + micro - 1) // micro, 1)
    small, larger = rows // parts, rows % parts

    def bounds(index):
        start = index * small + tf().minimum(index, larger)
        return start, small + tf().cast(index < larger, tf().int32)

    return parts, bounds


def share(size, rows):
    """size / rows, also where there are no rows at all."""
    return tf().math.divide_no_nan(tf().cast(size, tf().float32), tf().cast(rows, tf().float32))


# --- the loop ---------------------------------------------------------------------------------------


def loop(parts, body, start):
    """`carry = body(i, carry)` for every part. Compiled, the carry must keep its structure and its types."""
    if tf().executing_eagerly():
        carry = start
        for index in range(int(parts)):
            carry = body(tf().constant(index), carry)
        return carry
    _, carry = tf().while_loop(
        lambda index, _: index < parts,
        lambda index, carry: (index + 1, body(index, carry)),
        (tf().constant(0), start),
        parallel_iterations=1,  # one part at a time is the whole point
    )
    return carry


# --- sums -------------------------------------------------------------------------------------------

NONE, DENSE, SPARSE = "none", "dense", "sparse"


def kind_of(gradient):
    if gradient is None:
        return NONE
    return SPARSE if isinstance(gradient, tf().IndexedSlices) else DENSE


def nothing(kinds, variables, count):
    """Zero gradients to start a sum over `count` parts from: one entry a variable, of its gradient's kind."""
    return [_ZERO[kind](variable, count) for kind, variable in zip(kinds, variables)]


def _zero_dense(variable, count):
    return tf().zeros(variable.shape, variable.dtype)


def _zero_sparse(variable, count):
    """The slices of every part, side by side: as many, and in the same order, as the whole batch has.

    Adding up those of equal index would be smaller, and wrong: optimizers square the slices one by one.
    """
    return (array(variable.dtype, variable.shape[1:], count), array(tf().int64, (), count))


def array(dtype, shape, count):
    """One entry a part, of any number of rows, to be put end to end."""
    return tf().TensorArray(dtype, size=count, element_shape=[None, *shape], infer_shape=False)


_ZERO = {NONE: lambda variable, count: (), DENSE: _zero_dense, SPARSE: _zero_sparse}


def add(kinds, sums, gradients, index):
    """The sums with the gradients of part `index`."""
    return [_ADD[kind](total, gradient, index) for kind, total, gradient in zip(kinds, sums, gradients)]


def _add_dense(total, gradient, index):
    """`add_n`, not `+`: with oneDNN, Grappler's remapping takes a product and what is added to it for a layer with its
    bias, which the sum of a (1, 1) weight's gradients is not ("bias must be 1-dimensional")."""
    if gradient is None:
        return total
    return tf().add_n([total, tf().cast(tf().convert_to_tensor(gradient), total.dtype)])


def _add_sparse(total, gradient, index):
    values, indices = total
    indices = indices.write(index, tf().cast(gradient.indices, tf().int64))
    return (values.write(index, gradient.values), indices)


_ADD = {NONE: lambda total, gradient, index: (), DENSE: _add_dense, SPARSE: _add_sparse}


def gradients_of(kinds, sums, variables):
    """The sums in the form an optimizer takes."""
    return [_FORM[kind](total, variable) for kind, total, variable in zip(kinds, sums, variables)]


def _sparse(total, variable):
    values, indices = total
    shape = tf().constant([*variable.shape], tf().int64)
    return tf().IndexedSlices(values.concat(), indices.concat(), dense_shape=shape)


_FORM = {NONE: lambda total, variable: None, DENSE: lambda total, variable: total, SPARSE: _sparse}
