"""
Beat auto
=========

The arena plays every learner on one suite of games and scores its cost above the certified optimum. Your own learner is a
function of what ``auto`` gets: the set, and what moving costs. Here it plays three of the games. Leave out ``only`` for
the quick suite, and use ``quick=False`` for the whole suite.
"""

import klazy as kl
from klazy import show


def steady(domain, movement):
    """A learner with a memory of about 64 rounds."""
    return kl.MemoryGD(
        domain, kl.ScaleFree(domain.diameter, 10.0, float(movement.weight)), memory=kl.memories.Decay(64)
    )


found = kl.arena.compare(steady, only=["bursts"], jobs=1)
print(found)

# %%
# In these games the costs change sign in long phases, with bursts of the other sign. A ratio of 1 is the best tuned learner
# of each game: its parameters were chosen on the first half, and the second half is scored. Red marks learners that got
# only the set and the price.
ranking = found.rank()
ratios = {row["contender"]: (row["best_tuned"], row["low"], row["high"]) for row in ranking}
figure = show.draw_ratios(ratios, "cost above the optimum, best tuned learner = 1", ["auto", "steady"])
assert (found.above > 0.0).all()  # nobody beats the optimum

# %%
# ``steady`` loses to ``auto``, because one memory does not suit all prices.
by_price = [(row["price"], round(row["steady"], 2), round(row["auto"], 2)) for row in found.group("price")]
print("price, steady, auto:", *by_price, sep="\n")
assert ratios["auto"][0] < ratios["steady"][0]
