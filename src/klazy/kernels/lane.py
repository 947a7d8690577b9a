"""The words in which every part of a round is written, here for a lane of one float64.

A lane is one float64 (a single run), a vector register that holds one number of each of several runs
(:mod:`klazy.kernels.register`), or the float64 of a GPU thread. A part is written once, in these words, and reads as
plain Python; :func:`klazy.kernels.binding.link` exchanges the words for those of the lane that a kernel is made for.

A vector of a lane is an array in which place ``i`` holds one number for each run. A part may also use
``+ - * /``, comparisons, ``&`` and ``|`` of comparisons, and plain numbers, which count for all runs.
"""

import math
from array import array


def load(v, i):
    """Return place ``i`` of a vector."""
    return v[i]


def store(v, i, value):
    """Set place ``i`` of a vector."""
    v[i] = value


def peek(v, i):
    """Return place ``i`` as a plain number; all runs of the lane must have the same there."""
    return v[i]


def skip(v, n):
    """Return the vector from place ``n`` on."""
    return v[n:]


def beyond(p, n):
    """Return plain numbers from place ``n`` on."""
    return p[n:]


def local(size):
    """Return room for a few plain numbers that nothing else can point to."""
    return memoryview(array("d", [0.0]) * size)


def spread(value):
    """Return a plain number as a lane."""
    return value


def where(mask, x, y):
    """Return ``x`` where the mask holds, else ``y``."""
    return x if mask else y


def larger(x, y):
    """Return the larger of two; ``y`` where one of them is NaN."""
    return x if x > y else y


def smaller(x, y):
    """Return the smaller of two; ``y`` where one of them is NaN."""
    return x if x < y else y


def larger_number(x, y):
    """Return the larger of two, neither of which is NaN. Only so does a search for the largest number vectorise."""
    return x if x > y else y


def smaller_number(x, y):
    """Return the smaller of two, neither of which is NaN."""
    return x if x < y else y


def anywhere(mask):
    """Return True if the mask holds for some run: a branch of one run, a test of a register's mask."""
    return mask


def no_run():
    """Return the mask that holds for no run."""
    return spread(0.0) > 0.0


def everywhere(mask):
    """Return True if the mask holds for all runs."""
    return mask


def total(x):
    """Return the sum over the runs."""
    return x


def largest(x):
    """Return the largest of the runs' numbers."""
    return x


def smallest(x):
    """Return the smallest of the runs' numbers."""
    return x


def own_place():
    """Return the number of this thread in its block: always 0 on a processor."""
    return 0


def wait():
    """Wait until all threads of the block are here; each then sees what the others have written."""


def root(x):
    """Return the square root."""
    return math.sqrt(x)


def size(x):
    """Return the absolute value."""
    return abs(x)


def signed(x, sign):
    """Return ``x >= 0`` with the sign of ``sign``."""
    return math.copysign(x, sign)


def exp(x):
    """Return the exponential of ``x <= 0``."""
    return math.exp(x)


def log(x):
    """Return the logarithm of ``x > 0``."""
    return math.log(x)


# How a part is compiled. Without a mark it is inlined into the kernel, and its sums may be reordered so that they vectorise.


def exact(part):
    """Keep the arithmetic of this part in the order in which it is written."""
    part.flags = False
    return part


def called(part):
    """Compile this long part as a function that is called, not inlined."""
    part.inline = False
    return part
