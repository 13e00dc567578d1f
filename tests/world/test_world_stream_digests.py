"""The stream gives what it always gave: a trained model's batches can be made again for ever."""

from hashlib import blake2b

import pytest

from unbag.world.scenes import to_json
from unbag.world.stream import Knobs, Mixture, batch
from unbag.world.vocabulary import WORLDS

KNOBS = {
    "plain": Knobs(withheld_combinations=0.2),
    "collide": Knobs(collision=0.5, withheld_pairs=0.2),
    "relations": Knobs(
        mixture=Mixture(two_plain=0.02, relation=0.40), collision=0.5, order="listed_first"
    ),
    "larger": Knobs(order="larger_first", counted=0.2, negated=0.3, one_thing=0.3),
}


@pytest.mark.parametrize(
    ("world", "knobs", "digest"),
    [
        ("default", "plain", "bcab59c3d25cad8e"),
        ("default", "collide", "5ae5048c6c385e1e"),
        ("default", "relations", "3434696c5f35c03d"),
        ("default", "larger", "2b431f5e345788cb"),
        ("unit", "plain", "674bcdb06813ca19"),
        ("unit", "collide", "692a95837d39927e"),
        ("unit", "relations", "61568e2f9e58e044"),
        ("unit", "larger", "2576a75f29cfac57"),
    ],
)
def test_a_batch_is_the_one_it_was_before_scenes_were_made_faster(
    world: str, knobs: str, digest: str
) -> None:
    found = blake2b(digest_size=8)
    for sample in batch(WORLDS[world], KNOBS[knobs], seed=7, step=0, size=200):
        line = f"{to_json(sample.scene)}|{sample.ast!r}|{sample.caption}\n"
        found.update(line.encode())
    assert found.hexdigest() == digest
