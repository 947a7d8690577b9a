"""
Beat auto
=========

The arena plays every learner over one suite of games and scores it above the certified optimum. A learner of your own is a
function of what ``auto`` is told: the set, and what moving costs. Here it plays three of the games; leave out ``only`` for the
quick suite, and say ``quick=False`` for the whole.
"""

import klazy as kl
from klazy import show


def steady(domain, movement):
    """A memory of about 64 rounds, whatever comes."""
    return kl.MemoryGD(domain, kl.ScaleFree(domain.diameter, 10.0, float(movement.weight)), kl.Decay(64))


found = kl.arena.compare(steady, only=["bursts"], jobs=1)
print(found)

# %%
# In these games the costs change sign in long phases, with bursts of the other sign. One is the tuned learner that is best in
# each game: its parameters were chosen on the first half, and the second is scored. In red, who was told only the set and the
# price.
ranking = found.rank()
ratios = {row["contender"]: (row["best_tuned"], row["low"], row["high"]) for row in ranking}
figure = show.draw_ratios(ratios, "cost above the optimum, best tuned learner = 1", ["auto", "steady"])
assert (found.above > 0.0).all()  # nobody beats the optimum

# %%
# ``steady`` loses to ``auto``: one memory does not suit all prices.
by_price = [(row["price"], round(row["steady"], 2), round(row["auto"], 2)) for row in found.group("price")]
print("price, steady, auto:", *by_price, sep="\n")
assert ratios["auto"][0] < ratios["steady"][0]
